#!/bin/sh
# Writes nginx's upstream servers from the answers of gwready, and reloads nginx when they have changed.
#
#   gwready-upstreams.sh FOLDER PORTS NODE…      e.g.  gwready-upstreams.sh /etc/nginx/gwready "80 443" 10.0.0.11 10.0.0.12
#
# One pass per call: run it every second or two (gwready-upstreams.service). A node is used when the answer for that port
# has state=up; drain and down both end new connections, a reload keeps the existing ones. If no node at all is up, the last
# list stays: an empty upstream would refuse everyone, and a fault of this script or of its network must not do that.
# RELOAD is the command that makes nginx read its configuration again (default: nginx -t -q && nginx -s reload).
set -eu

if [ $# -lt 3 ]; then
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 64
fi
folder=$1
ports=$2
shift 2
reload=${RELOAD:-nginx -t -q && nginx -s reload}
health_port=${HEALTH_PORT:-9680}
changed=0

mkdir -p "$folder"
for port in $ports; do
    list=$(mktemp "$folder/.$port.XXXXXX")
    for node in "$@"; do
        case $node in *:*) node="[$node]" ;; esac
        answer=$(curl --silent --max-time 2 --globoff "http://$node:$health_port/healthz/$port" || true)
        case $answer in
            "state=up "*) echo "server $node:$port max_fails=2 fail_timeout=2s;" >>"$list" ;;
            *) echo "server $node:$port down; # ${answer%%
*}" | tr -d ';{}' | sed 's/ down /  down; /' >>"$list" ;;
        esac
    done
    if ! grep -q max_fails "$list"; then
        echo "gwready-upstreams: no node is up for port $port, the last list stays" >&2
        if [ -e "$folder/$port.conf" ]; then
            rm -f "$list"
            continue
        fi
        # Nothing was ever known: let all take part.
        for node in "$@"; do
            case $node in *:*) node="[$node]" ;; esac
            echo "server $node:$port max_fails=2 fail_timeout=2s;"
        done >"$list"
    fi
    if cmp -s "$list" "$folder/$port.conf"; then
        rm -f "$list"
    else
        chmod 644 "$list"
        mv "$list" "$folder/$port.conf"
        changed=1
    fi
done
if [ "$changed" = 1 ]; then
    sh -c "$reload"
fi
