# The servers of the lab, each a stock Debian program with a configuration written to SCRATCH:
#   gw     dnsmasq (name server of the LAN), chronyd (NTP; -x: it never touches the clock)
#   hub    mosquitto (MQTT broker of the house), sshd
#   camera nginx (its own web page, password asked)
#   lamp   libcoap's coap-server, IPv4 and IPv6
#   cloud  nginx over TLS (the vendors' APIs and firmware), a second mosquitto, a second dnsmasq
# Keys, certificates and passwords are made for the run and thrown away with it. Nobody can log in:
# sshd allows only a user that does not exist.

CLOUD_NAMES="api.plug.example,203.0.113.10 upload.camera.example,203.0.113.11 updates.vendor.example,203.0.113.20 collect.example,203.0.113.30"

serve() { local name=$1; shift; in_ns "$name" "$@" >>"$SCRATCH/$name.out" 2>&1 & }

wait_for_tcp() {
  local name=$1 address=$2 port=$3 try
  for try in $(seq 50); do
    in_ns "$name" bash -c "exec 3<>/dev/tcp/$address/$port" 2>/dev/null && return 0
    sleep 0.1
  done
  echo "make-captures.sh: nothing answers on $name $address:$port" >&2
  return 1
}

make_certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=lab.example \
    -addext "subjectAltName=DNS:api.plug.example,DNS:upload.camera.example,DNS:updates.vendor.example" \
    -keyout "$SCRATCH/tls.key" -out "$SCRATCH/tls.crt" 2>/dev/null
}

nginx_conf() { # NAME SERVER_BLOCK
  mkdir -p "$SCRATCH/nginx-$1"
  cat >"$SCRATCH/nginx-$1.conf" <<CONF
user root; daemon off; worker_processes 1; pid $SCRATCH/nginx-$1/pid; error_log $SCRATCH/nginx-$1/error.log;
events { worker_connections 256; }
http {
  access_log off; default_type application/json; server_tokens off;
  client_body_temp_path $SCRATCH/nginx-$1/body; proxy_temp_path $SCRATCH/nginx-$1/proxy;
  fastcgi_temp_path $SCRATCH/nginx-$1/fastcgi; uwsgi_temp_path $SCRATCH/nginx-$1/uwsgi;
  scgi_temp_path $SCRATCH/nginx-$1/scgi;
  $2
}
CONF
}

start_services() {
  chmod 755 "$SCRATCH"
  make_certificate

  local name records=()
  for name in $CLOUD_NAMES; do records+=("--host-record=$name"); done
  serve gw dnsmasq --keep-in-foreground --conf-file=/dev/null --user=root --pid-file= --no-resolv --no-hosts \
    --interface=br0 --bind-interfaces --cache-size=0 --local=/example/ "${records[@]}"
  serve cloud dnsmasq --keep-in-foreground --conf-file=/dev/null --user=root --pid-file= --no-resolv --no-hosts \
    --listen-address=203.0.113.53 --bind-interfaces --address=/t.collect.example/203.0.113.30
  printf 'local stratum 8\nallow all\ncmdport 0\nbindcmdaddress /\npidfile %s/chronyd.pid\n' "$SCRATCH" >"$SCRATCH/chrony.conf"
  serve gw chronyd -d -x -u root -f "$SCRATCH/chrony.conf"

  printf 'listener 1883\nallow_anonymous true\nuser root\npersistence false\n' >"$SCRATCH/mosquitto.conf"
  serve hub mosquitto -c "$SCRATCH/mosquitto.conf"
  serve cloud mosquitto -c "$SCRATCH/mosquitto.conf"
  serve lamp coap-server-notls

  mkdir -p /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f "$SCRATCH/ssh_host_key"
  printf '%s\n' "Port 22" "HostKey $SCRATCH/ssh_host_key" "UsePAM no" "PidFile none" "MaxStartups 60" \
    "PasswordAuthentication yes" "PubkeyAuthentication no" "PermitRootLogin no" "UseDNS no" \
    "AllowUsers nobody-may-enter" >"$SCRATCH/sshd_config"
  serve hub /usr/sbin/sshd -D -e -f "$SCRATCH/sshd_config"

  printf 'admin:%s\n' "$(openssl passwd -apr1 "$(openssl rand -hex 12)")" >"$SCRATCH/htpasswd"
  nginx_conf camera "server { listen 80; location / { auth_basic camera; auth_basic_user_file $SCRATCH/htpasswd; } }"
  serve camera nginx -c "$SCRATCH/nginx-camera.conf"

  mkdir -p "$SCRATCH/www"
  head -c 96000 /dev/urandom >"$SCRATCH/www/firmware.bin" # a signed, compressed image looks like this
  nginx_conf cloud "ssl_certificate $SCRATCH/tls.crt; ssl_certificate_key $SCRATCH/tls.key;
  server { listen 443 ssl; root $SCRATCH/www;
    location /status { return 200 '{\"relay\":\"on\",\"schedule\":[420,1320],\"next\":1}'; }
    location /upload { return 200 '{\"stored\":true}'; } }"
  serve cloud nginx -c "$SCRATCH/nginx-cloud.conf"

  wait_for_tcp hub 127.0.0.1 1883
  wait_for_tcp hub 127.0.0.1 22
  wait_for_tcp camera 127.0.0.1 80
  wait_for_tcp cloud 203.0.113.10 443
  wait_for_tcp cloud 203.0.113.30 1883
  wait_for_tcp gw 192.168.50.1 53
}
