package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/cni"
)

// options are the command and the flags.
type options struct {
	command           string
	confDir, stateDir string
	binDirs           []string
	netns, id, ifname string
	ports, keep       []string
	all               bool
	timeout           time.Duration
	output            string
}

const usage = `cni attaches network namespaces to the network of this node.

  cni add    --netns PATH --id ID [--ifname eth0] [--port 8080:80/tcp]   attach
  cni del    --id ID [--ifname eth0] [--netns PATH]                      detach
  cni check  --id ID [--ifname eth0]                                     is it as add left it?
  cni status                                                             the network, its programs, what is attached
  cni gc     [--keep ID/IFNAME] [--all]                                  detach what has no namespace any more

Flags:
`

// parse reads the command line; an error says what is wrong.
func parse(args []string, help io.Writer) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("cni", pflag.ContinueOnError)
	f.SetOutput(help)
	f.SortFlags = false
	f.StringVar(&o.confDir, "conf-dir", "/etc/cni/net.d", "`directory` of network configurations; the first in the order of names counts")
	f.StringSliceVar(&o.binDirs, "bin-dir", []string{"/opt/cni/bin", "/usr/lib/cni"}, "`directories` of plugins")
	f.StringVar(&o.stateDir, "state-dir", "/var/lib/nodekit/cni", "`directory` for a record of each attachment")
	f.StringVar(&o.netns, "netns", "", "`path` of the network namespace")
	f.StringVar(&o.id, "id", "", "`name` of the container")
	f.StringVar(&o.ifname, "ifname", "eth0", "`name` of the interface in the namespace")
	f.StringSliceVar(&o.ports, "port", nil, "add: `mapping` of a port of the host, like 8080:80 or 5353:53/udp")
	f.StringSliceVar(&o.keep, "keep", nil, "gc: `attachment` to keep whatever its namespace, like web/eth0")
	f.BoolVar(&o.all, "all", false, "gc: detach also what has a namespace, except --keep")
	f.DurationVar(&o.timeout, "timeout", cni.DefaultTimeout, "how long one plugin may take")
	f.StringVarP(&o.output, "output", "o", "table", "`format`: table or json")
	f.Usage = func() { fmt.Fprint(help, usage+f.FlagUsages()) }
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() != 1 {
		return nil, fmt.Errorf("%d arguments, want one of add, del, check, status, gc; see --help", f.NArg())
	}
	o.command = f.Arg(0)
	return o, o.validate()
}

func (o *options) validate() error {
	switch {
	case !slices.Contains([]string{"add", "del", "check", "status", "gc"}, o.command):
		return fmt.Errorf("unknown command %q, want add, del, check, status or gc", o.command)
	case !slices.Contains([]string{"table", "json"}, o.output):
		return fmt.Errorf("--output is %q, want table or json", o.output)
	case slices.Contains([]string{"add", "del", "check"}, o.command) && o.id == "":
		return errors.New("--id is missing")
	case o.command == "add" && o.netns == "":
		return errors.New(`--netns is missing; "ip netns add NAME" makes /run/netns/NAME`)
	}
	return nil
}

// mappings reads --port.
func (o *options) mappings() ([]cni.PortMapping, error) {
	var all []cni.PortMapping
	for _, s := range o.ports {
		ports, protocol, _ := strings.Cut(s, "/")
		host, container, ok := strings.Cut(ports, ":")
		from, errFrom := strconv.ParseUint(host, 10, 16)
		to, errTo := strconv.ParseUint(container, 10, 16)
		if !ok || errFrom != nil || errTo != nil {
			return nil, fmt.Errorf("--port is %q, want something like 8080:80 or 5353:53/udp", s)
		}
		all = append(all, cni.PortMapping{HostPort: uint16(from), ContainerPort: uint16(to), Protocol: protocol})
	}
	return all, nil
}

// kept reads --keep.
func (o *options) kept() ([]cni.Key, error) {
	var all []cni.Key
	for _, s := range o.keep {
		id, ifname, ok := strings.Cut(s, "/")
		if !ok {
			return nil, fmt.Errorf("--keep is %q, want ID/IFNAME", s)
		}
		all = append(all, cni.Key{ContainerID: id, IfName: ifname})
	}
	return all, nil
}
