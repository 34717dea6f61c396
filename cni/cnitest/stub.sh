#!/bin/sh
# A stub CNI plugin: notes the call, takes or gives back what it holds, and does
# what the file named after it and the command says.
dir='@DIR@'
name=${0##*/}
what=$name@$CNI_CONTAINERID@$CNI_IFNAME
call=$dir/calls/$$
while [ -e "$call" ]; do call=$call+; done
{
	printf '%s\n' "$name" "$CNI_COMMAND" "$CNI_CONTAINERID" "$CNI_IFNAME" "$CNI_NETNS" "$CNI_ARGS" "$CNI_PATH"
	cat
} >"$call"
printf '%s\n' "${call##*/}" >>"$dir/log"

refuse() {
	printf '{"cniVersion":"1.0.0","code":%d,"msg":"%s"}\n' "$1" "$2"
	exit 1
}
if [ "$CNI_COMMAND" = ADD ]; then
	[ -e "$dir/held/$what" ] && refuse 100 "$CNI_IFNAME of $CNI_CONTAINERID is attached already"
	: >"$dir/held/$what"
fi
behaviour=$dir/behaviour/$name@$CNI_COMMAND
[ -e "$behaviour" ] && . "$behaviour"
case $CNI_COMMAND in
ADD) cat "$dir/result/$name" ;;
DEL) rm -f "$dir/held/$what" ;;
CHECK) [ -e "$dir/held/$what" ] || refuse 3 "$CNI_IFNAME of $CNI_CONTAINERID is not attached" ;;
VERSION) printf '%s\n' '{"cniVersion":"1.1.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}' ;;
GC | STATUS) ;;
*) refuse 4 "CNI_COMMAND is $CNI_COMMAND" ;;
esac
exit 0
