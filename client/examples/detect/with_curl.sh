#!/bin/sh
# What is where in a picture? With curl: with_curl.sh HOST:PORT MODEL IMAGE [DRAWN.png], of the HTTP port
# Prints the server's answer in JSON: results[0].detections, surest first, in pixels of the picture. With DRAWN.png the server
# also draws them.
set -eu
url="http://$1/v1/detect?model=$2&score_threshold=0.5"
if [ $# -gt 3 ]; then
  curl --silent --show-error --fail-with-body -H "Accept: image/png" -F "image=@$3" --output "$4" "$url"
fi
exec curl --silent --show-error --fail-with-body -F "image=@$3" "$url"
