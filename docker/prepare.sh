#!/bin/sh
# Creates the certificate, the metrics token and the agents' keys. Existing files are kept.
#
#   prepare.sh certificate NAME    before the server starts: a certificate for its host name, and its metrics token
#   prepare.sh keys AGENT...       after the server has started: keys for the agents with these ids
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
