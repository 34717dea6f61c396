package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// program is a kube-proxy that runs, in a cgroup of its own: so what its children use counts
// while they run.
type program struct {
	cmd    *exec.Cmd
	config string
	log    string
	cgroup string
	cpu    time.Duration // at the last call of spent
	forked float64
	ended  chan error
}

func (b *bench) start(ctx context.Context, name, path, server string) (*program, error) {
	config, err := b.files(name, server)
	if err != nil {
		return nil, err
	}
	p := &program{config: config, log: filepath.Join(b.dir, name+".log"), cgroup: "/sys/fs/cgroup/bench-" + name, ended: make(chan error, 1)}
	if err := os.Mkdir(p.cgroup, 0o755); err != nil {
		return nil, err
	}
	cgroup, err := os.Open(p.cgroup)
	if err != nil {
		return nil, err
	}
	defer cgroup.Close()
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.CommandContext(ctx, path, "--config", config, "--hostname-override", "node-a")
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	p.forked = forks()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p, nil
}

// stop ends the program, and has cleaner remove what it made: the stock kube-proxy stumbles
// over iptables-nft when it is to do that itself.
func (p *program) stop(ctx context.Context, cleaner string) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = <-p.ended // by the signal
	out, err := exec.CommandContext(ctx, cleaner, "--cleanup", "--config", p.config).CombinedOutput()
	if err != nil {
		return fmt.Errorf("--cleanup: %w: %s", err, out)
	}
	return nil
}

// progress is how often a wait tells how far it is.
const progress = time.Minute

// await waits until done is true of what IPVS has, and returns how long that took, to a
// twentieth: to list all of it costs the machine more the more there is.
func (p *program) await(limit time.Duration, done func(table) bool) (time.Duration, error) {
	begin := time.Now()
	told := begin
	for {
		t, err := readTable()
		took := time.Since(begin)
		if err != nil || done(t) {
			return took, err
		}
		if time.Since(told) >= progress {
			told = time.Now()
			fmt.Printf("       %4.0fs: %d virtual servers, %d real servers, CPU %.0fs, %d processes\n",
				took.Seconds(), t.servers, t.targets, p.used().Seconds(), p.processes())
		}
		if took > limit {
			return 0, fmt.Errorf("not done after %v: %d virtual servers, %d real servers\n%s", limit, t.servers, t.targets, p.tail())
		}
		select {
		case err := <-p.ended:
			p.ended <- err
			return 0, fmt.Errorf("it ended: %w\n%s", err, p.tail())
		case <-time.After(max(20*time.Millisecond, took/20)):
		}
	}
}

// quiet waits until the program is at rest: looked at twenty times in two seconds, it has no
// children and none of its threads wants to run. That it uses no CPU would tell nothing on a
// machine that gets none from its host.
func (p *program) quiet(limit time.Duration) error {
	rest := 0
	begin := time.Now()
	told := begin
	for time.Since(begin) < limit {
		time.Sleep(100 * time.Millisecond)
		processes, running := p.processes(), p.running()
		if rest++; processes > 1 || running > 0 {
			rest = 0
		}
		if time.Since(told) >= progress {
			told = time.Now()
			fmt.Printf("       %4.0fs: not at rest: CPU %.0fs, %d processes, %d threads want to run\n",
				time.Since(begin).Seconds(), p.used().Seconds(), processes, running)
		}
		if rest == 20 {
			return nil
		}
	}
	return fmt.Errorf("it does not come to rest in %v\n%s", limit, p.tail())
}

// spent returns the CPU that the program and its children used, and the processes and
// threads that the machine started, since the last call.
func (p *program) spent() (time.Duration, float64) {
	cpu, forked := p.used(), forks()
	c, f := cpu-p.cpu, forked-p.forked
	p.cpu, p.forked = cpu, forked
	return c, f
}

// used is the CPU of the program and of all its children.
func (p *program) used() time.Duration {
	data, err := os.ReadFile(filepath.Join(p.cgroup, "cpu.stat"))
	if err != nil {
		return p.cpu
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return time.Duration(n) * time.Microsecond
		}
	}
	return p.cpu
}

// processes is how many run, the program itself among them.
func (p *program) processes() int {
	data, _ := os.ReadFile(filepath.Join(p.cgroup, "cgroup.procs"))
	return bytes.Count(data, []byte("\n"))
}

// peak is the most memory that the program had, in KiB.
func (p *program) peak() int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n
		}
	}
	return 0
}

func (p *program) tail() string {
	data, _ := os.ReadFile(p.log)
	return string(data[max(0, len(data)-3000):])
}

// forks is how many processes and threads the machine has started.
func forks() float64 { return statistic("processes ") }

// running is how many threads of the program run or want to: state R of proc_pid_stat(5). The
// machine's number would count the threads of IPVS, too, which measure its traffic.
func (p *program) running() int {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	n := 0
	for _, file := range threads {
		data, _ := os.ReadFile(file)
		if _, after, ok := bytes.Cut(data, []byte(") ")); ok && bytes.HasPrefix(after, []byte("R")) {
			n++
		}
	}
	return n
}

func statistic(name string) float64 {
	data, _ := os.ReadFile("/proc/stat")
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return n
		}
	}
	return 0
}

// table is what IPVS has.
type table struct {
	servers, targets int
	// has are the real servers, as the kernel prints them: 0AF40005:1F90.
	has map[string]bool
}

func readTable() (table, error) {
	t := table{has: map[string]bool{}}
	f, err := os.Open("/proc/net/ip_vs")
	if os.IsNotExist(err) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) < 2:
		case fields[0] == "TCP":
			t.servers++
		case fields[0] == "->":
			t.targets++
			t.has[fields[1]] = true
		}
	}
	return t, nil
}
