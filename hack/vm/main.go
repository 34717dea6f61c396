// Command vm runs one static program as root in a throw-away Linux guest, for
// tests of what the host's kernel lacks. It is made to stand between go test and
// the test binary:
//
//	CGO_ENABLED=0 go test -exec "$PWD/_out/vm" -run '^TestKernel' ./proxier/nftables
//	CGO_ENABLED=0 go test -exec "$PWD/_out/vm -engine qemu" -run '^TestKernel' ./proxier/nftables
//
// The program's output is that of vm, on standard output, and its exit status is
// that of vm; 125 says that the guest itself failed, and standard error then has the
// end of its console. A signal that killed the program gives 128 and its number, as
// in a shell. README.md lists engines, flags and pitfalls.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// The names by which this program knows that it is not what the user started: the
// first process of a guest, or the one that keeps a guest.
const (
	initName   = "/init"
	keeperName = "vm-keeper"
)

// failed is the exit status that says: the guest, not the program.
const failed = 125

func main() {
	// The guest dies with the thread that started it.
	runtime.LockOSThread()
	switch os.Args[0] {
	case initName:
		initGuest()
		return
	case keeperName:
		os.Exit(keepGuest(os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(),
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	status, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		status = failed
	}
	os.Exit(status)
}

// options are what the command line asks for.
type options struct {
	engine  engine
	memory  int
	cpus    int
	timeout time.Duration
	out     string
	console string
	files   list
	env     list
	job     []string
}

// list is a flag that may be given several times, or once with commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = append(*l, strings.Split(s, ",")...)
	return nil
}

func parse(args []string) (options, error) {
	var o options
	set := flag.NewFlagSet("vm", flag.ContinueOnError)
	set.Usage = func() {
		fmt.Fprintln(set.Output(), "usage: vm [flags] PROGRAM [ARGUMENT...]")
		set.PrintDefaults()
	}
	name := set.String("engine", "uml", "uml, or qemu, or qemu: and a Debian kernel package")
	set.IntVar(&o.memory, "memory", 1024, "MiB of memory")
	set.IntVar(&o.cpus, "cpus", 1, "processors; uml has one")
	set.DurationVar(&o.timeout, "timeout", 15*time.Minute, "how long the guest may run")
	set.StringVar(&o.out, "out", "", "folder that receives what the program leaves in the guest's folder $"+outVariable)
	set.StringVar(&o.console, "console", "", "file that receives the kernel's messages")
	set.Var(&o.files, "file", "host program or file that the guest has too, with its libraries; PATH=HOSTPATH gives it another place")
	set.Var(&o.env, "env", "NAME=VALUE of the program's environment, or NAME to hand one down")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	o.job = set.Args()
	if len(o.job) == 0 {
		set.Usage()
		return o, errors.New("no program to run")
	}
	var err error
	o.engine, err = engineNamed(*name)
	return o, err
}

// run boots a guest for one program and returns the program's exit status.
func run(ctx context.Context, args []string, stdout io.Writer) (int, error) {
	o, err := parse(args)
	if err != nil {
		return 0, err
	}
	base, err := prepare(ctx, o.engine)
	if err != nil {
		return 0, fmt.Errorf("make the %s guest: %w", o.engine, err)
	}
	dir, remove, err := workdir()
	if err != nil {
		return 0, err
	}
	defer remove()
	m := machine{options: o, dir: dir, base: base}
	if err := m.pack(ctx); err != nil {
		return 0, fmt.Errorf("pack the guest's files: %w", err)
	}
	return m.boot(ctx, stdout)
}
