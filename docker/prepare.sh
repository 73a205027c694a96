#!/bin/sh
# Makes what a server and its agents need to know each other, and leaves what is there:
#
#   prepare.sh NAME AGENT...     the name by which the server is dialled, and the ids of the agents
set -eu
umask 077

name=$1
shift
folder=${CONFIGURATION_FOLDER:-/etc/aliquot}

if [ ! -s "$folder/server.pem" ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=$name" \
    -addext "subjectAltName=DNS:$name,DNS:localhost,IP:127.0.0.1" -keyout "$folder/server.key" -out "$folder/server.pem"
fi
for agent in "$@"; do
  [ -s "$folder/$agent.key" ] || aliquot agent key create "$agent" > "$folder/$agent.key"
done
