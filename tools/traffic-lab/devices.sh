# The devices, each a loop around a real client, each with its own character:
#   thermometer  MQTT, one short connection a reading, QoS 1, about every 0.5 s; NTP now and then
#   meter        MQTT, QoS 0, ten readings over one connection, a second apart, then a new connection
#   plug         looks a name up (A and AAAA), then polls its vendor over HTTPS, about every 1.3 s
#   camera       NTP every 2 s; uploads 1 to 5 kB over HTTPS every 4 s
#   hub          asks the lamp over CoAP, IPv4 and IPv6 in turn, and sometimes sets it (PUT)
#   lamp         listens to every MQTT topic over one long connection
# Real devices poll in minutes; here everything is quicker, so that a minute holds hundreds of flows.
# Each loop draws from bash's RANDOM with its own seed; the timing itself is the machine's.

pause() { # pause MILLIS JITTER_MILLIS
  local millis=$(($1 - $2 + RANDOM % (2 * $2 + 1)))
  sleep "$((millis / 1000)).$(printf '%03d' $((millis % 1000)))"
}

reading() { printf '{"t":%d.%02d,"h":%d,"b":%d}' $((18 + RANDOM % 6)) $((RANDOM % 100)) $((35 + RANDOM % 20)) $((80 + RANDOM % 20)); }

device_thermometer() {
  RANDOM=21
  local n=0
  while :; do
    mosquitto_pub -h 192.168.50.10 -i thermometer -q 1 -t house/hall/climate -m "$(reading)"
    ((n++ % 12)) || ntpdig -t 2 192.168.50.1
    pause 450 60
  done
}

device_meter() {
  RANDOM=26
  local n
  while :; do
    for n in $(seq 10); do
      printf '{"watts":%d,"kwh":%d}\n' $((200 + RANDOM % 900)) $((4100 + n))
      pause 1000 30
    done | mosquitto_pub -h 192.168.50.10 -i meter -q 0 -t house/meter -l
  done
}

device_plug() {
  RANDOM=22
  while :; do
    curl -s --max-time 5 --cacert "$SCRATCH/tls.crt" -A plug/1.4 https://api.plug.example/status
    pause 1250 200
  done
}

device_camera() {
  RANDOM=23
  while :; do
    ntpdig -t 2 192.168.50.1
    pause 1900 100
    ntpdig -t 2 192.168.50.1
    head -c $((1000 + RANDOM % 4000)) /dev/urandom |
      curl -s --max-time 5 --cacert "$SCRATCH/tls.crt" -A camera/2.0 --data-binary @- https://upload.camera.example/upload
    pause 1900 300
  done
}

device_hub() {
  RANDOM=10
  local n=0 lamp
  while :; do
    lamp=192.168.50.25
    ((n++ % 2)) || lamp='[fd50::25]'
    coap-client-notls -B 2 -m get "coap://$lamp/time"
    ((n % 9)) || coap-client-notls -B 2 -m put -e "brightness=$((RANDOM % 100))" "coap://$lamp/example_data"
    pause 330 80
  done
}

device_lamp() { mosquitto_sub -h 192.168.50.10 -i lamp -t 'house/#'; }

start_devices() {
  local name
  for name in lamp thermometer meter plug camera hub; do
    serve "$name" bash -c "source '$LAB/devices.sh'; device_$name"
  done
}
