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

// program is a kube-proxy that runs.
type program struct {
	cmd     *exec.Cmd
	config  string
	log     string
	begun   time.Time
	cpu     time.Duration // at the last call of spent
	forked  float64
	ended   chan error
	changed time.Time
}

func (b *bench) start(ctx context.Context, name, path, server string) (*program, error) {
	config, err := b.files(name, server)
	if err != nil {
		return nil, err
	}
	p := &program{config: config, log: filepath.Join(b.dir, name+".log"), ended: make(chan error, 1)}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.CommandContext(ctx, path, "--config", config, "--hostname-override", "node-a")
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.forked = forks()
	p.begun = time.Now()
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

// await waits until done is true of what IPVS has, and returns how long that took.
func (p *program) await(limit time.Duration, done func(table) bool) (time.Duration, error) {
	begin := p.begun
	if !p.changed.IsZero() {
		begin = time.Now()
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		t, err := readTable()
		if err != nil {
			return 0, err
		}
		if done(t) {
			p.changed = time.Now()
			return p.changed.Sub(begin), nil
		}
		select {
		case err := <-p.ended:
			p.ended <- err
			return 0, fmt.Errorf("it ended: %w\n%s", err, p.tail())
		default:
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("not done after %v: %d virtual servers, %d real servers\n%s", limit, t.servers, t.targets, p.tail())
		}
	}
}

// quiet waits until the program has used no CPU to speak of for a second.
func (p *program) quiet() error {
	last := p.used()
	for range 600 {
		time.Sleep(time.Second)
		now := p.used()
		if now-last < 50*time.Millisecond {
			return nil
		}
		last = now
	}
	return fmt.Errorf("it does not come to rest\n%s", p.tail())
}

// spent returns the CPU that the program and its children used, and the processes and
// threads that the machine started, since the last call.
func (p *program) spent() (time.Duration, float64) {
	cpu, forked := p.used(), forks()
	c, f := cpu-p.cpu, forked-p.forked
	p.cpu, p.forked = cpu, forked
	return c, f
}

// used is the CPU of the program and of the children that it has waited for.
func (p *program) used() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return p.cpu
	}
	_, rest, _ := bytes.Cut(data, []byte(") "))
	fields := strings.Fields(string(rest))
	var ticks int64
	for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime: proc_pid_stat(5)
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		ticks += n
	}
	const perSecond = 100 // USER_HZ
	return time.Duration(ticks) * time.Second / perSecond
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
func forks() float64 {
	data, _ := os.ReadFile("/proc/stat")
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "processes "); ok {
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
