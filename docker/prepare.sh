#!/bin/sh
# Makes what a server and its agents need to know each other, and leaves what is there:
#
#   prepare.sh certificate NAME    a certificate for the name by which the server is dialled, and the token that opens
#                                  its metrics; before it starts
#   prepare.sh keys AGENT...       keys for agents of these ids; once it has started
set -eu
umask 077

what=$1
shift
folder=${CONFIGURATION_FOLDER:-/etc/aliquot}

case $what in
  certificate)
    [ -s "$folder/server.pem" ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
      -subj "/CN=$1" -addext "subjectAltName=DNS:$1,DNS:localhost,IP:127.0.0.1" \
      -keyout "$folder/server.key" -out "$folder/server.pem"
    [ -s "$folder/metrics.token" ] || openssl rand -hex 24 > "$folder/metrics.token"
    ;;
  keys)
    for agent in "$@"; do
      [ -s "$folder/$agent.key" ] || aliquot agent key create --replace "$agent" > "$folder/$agent.key"
    done
    ;;
esac
