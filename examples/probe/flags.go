package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/probes"
)

// options are the flags.
type options struct {
	action
	fromPod
	kind     probes.Kind
	schedule probes.Schedule
	count    int
	output   string
}

// action is a probe described by flags: exactly one of http, tcp, grpc and command.
type action struct {
	http, tcp, grpc string
	headers         []string
	service         string
	tls, http2      bool
	command         []string
}

// fromPod says where a probe is found in a pod, and where to reach the container.
type fromPod struct {
	file, container, host string
	runtime, containerID  string
}

// parse reads the flags; an error says which one is wrong.
func parse(args []string, usage io.Writer) (*options, error) {
	o := &options{}
	var kind string
	f := pflag.NewFlagSet("probe", pflag.ContinueOnError)
	f.SetOutput(usage)
	f.SortFlags = false
	f.StringVar(&o.http, "http", "", "get a `URL`")
	f.StringArrayVar(&o.headers, "header", nil, "`name: value` to send with --http; may be repeated")
	f.BoolVar(&o.http2, "http2", false, "speak nothing but HTTP/2 with --http")
	f.StringVar(&o.tcp, "tcp", "", "connect to `host:port`")
	f.StringVar(&o.grpc, "grpc", "", "ask the gRPC health service at `host:port`")
	f.StringVar(&o.service, "service", "", "`name` of the service to ask about with --grpc")
	f.BoolVar(&o.tls, "tls", false, "use TLS, without verification, with --grpc")
	f.StringVar(&o.file, "pod", "", "take the probe from a `file` with a pod")
	f.StringVar(&o.container, "container", "", "`name` of the container in --pod; may be left out when there is one")
	f.StringVar(&o.host, "host", "", "`address` of the pod in --pod; default: its status.podIP, else 127.0.0.1")
	f.StringVar(&o.runtime, "runtime", "", "CRI `endpoint` of the runtime that runs the commands of probes; default: they run here")
	f.StringVar(&o.containerID, "container-id", "", "`ID` of the container to run commands in, with --runtime")
	f.StringVar(&kind, "kind", "readiness", "startup, liveness or readiness")
	f.DurationVar(&o.schedule.InitialDelay, "initial-delay", 0, "time before the first attempt")
	f.DurationVar(&o.schedule.Period, "period", 0, "time between attempts; default: 10s")
	f.DurationVar(&o.schedule.Timeout, "timeout", 0, "time for one attempt; default: 1s")
	f.IntVar(&o.schedule.SuccessThreshold, "success-threshold", 0, "successes in a row that make a success; default: 1")
	f.IntVar(&o.schedule.FailureThreshold, "failure-threshold", 0, "failures in a row that make a failure; default: 3")
	f.IntVar(&o.count, "count", 0, "number of attempts; 0: until the probe is over or a signal comes")
	f.StringVarP(&o.output, "output", "o", "table", "`format`: table, or json with an object per line")
	f.Usage = func() {
		fmt.Fprintf(usage, "probe runs one probe and prints each result.\n\n"+
			"  probe --http URL | --tcp ADDR | --grpc ADDR | --pod FILE | -- COMMAND...\n\nFlags:\n%s", f.FlagUsages())
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.command = f.Args()
	if o.file != "" {
		if err := onlySchedule(f); err != nil {
			return nil, err
		}
	}
	var err error
	o.kind, err = parseKind(kind)
	return o, errors.Join(err, o.check())
}

// onlySchedule rejects flags that would say what the pod file says.
func onlySchedule(f *pflag.FlagSet) error {
	for _, name := range []string{"initial-delay", "period", "timeout", "success-threshold", "failure-threshold"} {
		if f.Changed(name) {
			return fmt.Errorf("--%s goes with a probe described by flags; with --pod, the pod says it", name)
		}
	}
	return nil
}

// check names flags that do not go together.
func (o *options) check() error {
	sources := 0
	for _, set := range []bool{o.http != "", o.tcp != "", o.grpc != "", o.file != "", len(o.command) > 0} {
		if set {
			sources++
		}
	}
	switch {
	case sources != 1:
		return fmt.Errorf("%d things to probe: give one of --http, --tcp, --grpc, --pod and a command after --; see --help", sources)
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("--output is %q: it must be table or json", o.output)
	case o.count < 0:
		return fmt.Errorf("--count is %d: it must not be negative", o.count)
	case (o.runtime == "") != (o.containerID == ""):
		return errors.New("--runtime and --container-id go together")
	}
	return nil
}

func parseKind(s string) (probes.Kind, error) {
	for _, k := range []probes.Kind{probes.Startup, probes.Liveness, probes.Readiness} {
		if strings.EqualFold(s, k.String()) {
			return k, nil
		}
	}
	return 0, fmt.Errorf("--kind is %q: it must be startup, liveness or readiness", s)
}

// header returns the headers of --header.
func (a action) header() (http.Header, error) {
	h := http.Header{}
	for _, text := range a.headers {
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return nil, fmt.Errorf("--header is %q: it must be name: value", text)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, nil
}
