package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/examples/internal/cli"
	"github.com/nodekit-go/nodekit/examples/kubelet/doctor"
)

const doctorUsage = `kubelet doctor looks at this node and says what is wrong with it: what people look at by hand when a
node is not ready. It changes nothing, and prints one line for each check.

It takes all flags of the kubelet. Those that are not given are taken from the kubelet that runs
here, else the files are those of kubeadm.

Exit codes: 0 no problem was found; 1 there is one at least; 2 the command line is wrong.
`

// doctorOptions are the flags of the command doctor: its own, and those of the kubelet.
type doctorOptions struct {
	options
	output  string
	timeout time.Duration
	cni     doctor.CNI
}

// command returns the command doctor with its flags, which set o.
func (o *doctorOptions) command() *cli.Command {
	c := &cli.Command{Name: "doctor", About: "say what is wrong with this node", Usage: doctorUsage}
	f := c.Group("Flags")
	f.StringVarP(&o.output, "output", "o", "text", "`format` of what is found: text or json")
	cli.Values(f, "output", "text", "json")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "`time` for each check; they run side by side")
	f.StringVar(&o.cni.ConfDir, "cni-conf-dir", "", "`directory` of networks; default: as the runtime says, else /etc/cni/net.d")
	f.StringSliceVar(&o.cni.BinDirs, "cni-bin-dir", nil, "`directories` of plugins; default: as the runtime says, else /opt/cni/bin")
	o.add(c)
	shown := []string{"config", "config-dir", "kubeconfig", "root-dir", "hostname-override", "container-runtime-endpoint", "cluster-dns"}
	for _, g := range c.Groups()[1:] {
		g.VisitAll(func(f *pflag.Flag) { f.Hidden = !slices.Contains(shown, f.Name) })
	}
	return c
}

// runDoctor is the command doctor. The flags of the kubelet that runs come before its own.
func runDoctor(running, args []string, stdout, stderr io.Writer) error {
	o := &doctorOptions{}
	command := o.command()
	running, unknown := known(command.Flags(), running)
	for _, flag := range unknown {
		fmt.Fprintf(stderr, "kubelet doctor: flag %s of the kubelet that runs is not known and left out\n", flag)
	}
	rest, err := command.Parse(slices.Concat(running, args), stderr)
	switch {
	case err != nil:
		return help(err)
	case len(rest) > 0:
		return usageError{fmt.Errorf("unexpected argument %q; see doctor --help", rest[0])}
	case o.output != "text" && o.output != "json":
		return usageError{fmt.Errorf("--output is %q, want text or json", o.output)}
	}
	n, err := o.patient()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	findings := doctor.Examine(ctx, n)
	write := doctor.WriteText
	if o.output == "json" {
		write = doctor.WriteJSON
	}
	if err := write(stdout, findings); err != nil {
		return err
	}
	if n := doctor.Problems(findings); n > 0 {
		return fmt.Errorf("%d problems were found", n)
	}
	return nil
}

// The files of kubeadm.
const (
	kubeadmConfig     = "/var/lib/kubelet/config.yaml"
	kubeadmKubeconfig = "/etc/kubernetes/kubelet.conf"
)

// patient describes the node that is looked at. A configuration that cannot be read is a
// problem of the node, and looked at with the defaults.
func (o *doctorOptions) patient() (doctor.Node, error) {
	name, err := o.nodeName()
	if err != nil {
		return doctor.Node{}, err
	}
	if o.config == "" && o.configDir == "" && exists(kubeadmConfig) {
		o.config = kubeadmConfig
	}
	if o.kubeconfig == "" && exists(kubeadmKubeconfig) {
		o.kubeconfig = kubeadmKubeconfig
	}
	k, problems, err := o.read()
	if err != nil {
		k = &kubeletconfig.KubeletConfiguration{}
		config.SetDefaults(k)
		problems = []config.Problem{{Field: "configuration", Severity: config.Error, Message: err.Error()}}
	}
	return doctor.Node{
		Kubelet:    k,
		Problems:   problems,
		Name:       name,
		Kubeconfig: o.kubeconfig,
		Root:       o.root,
		CertDir:    o.certDir,
		CNI:        o.cni,
		Timeout:    o.timeout,
	}, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// known takes from args the flags that are not defined, with their values. A kubelet of
// another make may have some.
func known(flags *pflag.FlagSet, args []string) (kept, unknown []string) {
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "--") || flags.Lookup(name) != nil {
			kept = append(kept, args[i])
			continue
		}
		unknown = append(unknown, "--"+name)
		if !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
		}
	}
	return kept, unknown
}

// runningArgs returns the flags of the one kubelet that runs on this node; nothing if there
// is none, or several. Only a process that may be trusted counts: its flags name files, and
// those may name commands.
func runningArgs(proc string) []string {
	names, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "comm"))
	if err != nil {
		return nil
	}
	var found [][]string
	for _, path := range names {
		comm, err := os.ReadFile(path)
		dir := filepath.Dir(path)
		if err != nil || strings.TrimSpace(string(comm)) != "kubelet" || filepath.Base(dir) == strconv.Itoa(os.Getpid()) || elsewhere(proc, dir) || !trusted(dir) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		if len(args) > 1 && strings.HasPrefix(args[1], "-") {
			found = append(found, args[1:])
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// elsewhere reports whether a process is in another namespace than this one, like the
// kubelet of a node that is a container here, or somebody's pod.
func elsewhere(proc, dir string) bool {
	for _, kind := range []string{"net", "mnt", "pid", "user"} {
		own, err := os.Readlink(filepath.Join(proc, "self", "ns", kind))
		if err != nil {
			continue // a kernel without this kind
		}
		if other, err := os.Readlink(filepath.Join(dir, "ns", kind)); err != nil || own != other {
			return true
		}
	}
	return false
}

// trusted reports whether a process is root's or the caller's own.
func trusted(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}
