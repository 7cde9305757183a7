#!/bin/sh
# What does a picture show? With curl: with_curl.sh HOST:PORT MODEL IMAGE, of the HTTP port
# Prints the server's answer in JSON: results[0].classes, most probable first, and what they cost (receipt).
set -eu
exec curl --silent --show-error --fail-with-body -F "image=@$3" "http://$1/v1/classify?model=$2&top_k=3"
