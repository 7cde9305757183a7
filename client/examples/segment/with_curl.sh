#!/bin/sh
# Of which class is each pixel of a picture? With curl: with_curl.sh HOST:PORT MODEL IMAGE [DRAWN.png], of the HTTP port
# Prints the server's answer in JSON: results[0].classes, the largest first; class_map_png, in base64, has the class of each
# pixel as its grey. With DRAWN.png the server also draws them.
set -eu
url="http://$1/v1/segment?model=$2"
if [ $# -gt 3 ]; then
  curl --silent --show-error --fail-with-body -H "Accept: image/png" -F "image=@$3" --output "$4" "$url"
fi
exec curl --silent --show-error --fail-with-body -F "image=@$3" "$url"
