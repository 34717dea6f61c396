package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// contender is a kube-proxy to measure.
type contender struct {
	name, binary string
	// profiles is a directory for CPU profiles. Empty means none: to write them costs
	// CPU time that would be measured.
	profiles string
}

// result is what one contender needed.
type result struct {
	name     string
	start    time.Duration
	startCPU cpu
	peak     int64 // KiB
	latency  map[kind][]time.Duration
	cpu      map[kind]cpu // per update
	viaVIP   []time.Duration
	direct   []time.Duration
}

// kind is a kind of update.
type kind string

const (
	replaceAll kind = "endpoints replaced"
	addOne     kind = "one endpoint more"
	removeOne  kind = "one endpoint less"
	addService kind = "Service added"
	delService kind = "Service deleted"
)

func kinds() []kind { return []kind{replaceAll, addOne, removeOne, addService, delService} }

// patience bounds every wait for a proxy.
const patience = 10 * time.Minute

func measure(ctx context.Context, c *cluster, who contender, updates int) (result, error) {
	r := result{name: who.name, latency: map[kind][]time.Duration{}, cpu: map[kind]cpu{}}
	begin := time.Now()
	cmd, err := startIn(c.net.node, filepath.Join(c.dir, who.name+".log"), who.binary, "--config", filepath.Join(c.dir, "proxy.yaml"))
	if err != nil {
		return r, err
	}
	defer func() { stopProxy(cmd, c, who) }()
	profiled := who.profile(ctx, c, "start")
	err = inside(c.net.client, func() error { return c.awaitAll(ctx) })
	if err != nil {
		return r, fmt.Errorf("%w\n%s", err, tail(filepath.Join(c.dir, who.name+".log")))
	}
	r.start, r.startCPU = time.Since(begin), cpuOf(cmd)
	if err := profiled(); err != nil {
		return r, err
	}
	fmt.Printf("  %s: all answer after %v (%v CPU)\n", who.name, r.start.Round(time.Millisecond), r.startCPU.all())
	time.Sleep(2 * time.Second) // let what follows the start come to an end
	u := updater{c: c, cmd: cmd, result: &r, count: updates}
	for _, k := range kinds() {
		profiled := who.profile(ctx, c, strings.ReplaceAll(string(k), " ", "-"))
		if err := inside(c.net.client, func() error { return u.run(ctx, k) }); err != nil {
			return r, fmt.Errorf("%s: %w", k, err)
		}
		if err := profiled(); err != nil {
			return r, fmt.Errorf("%s: %w", k, err)
		}
		fmt.Printf("  %s: %s: p50 %v p99 %v, CPU %v\n", who.name, k, quantile(r.latency[k], 0.5).Round(10*time.Microsecond),
			quantile(r.latency[k], 0.99).Round(10*time.Microsecond), r.cpu[k].all().Round(10*time.Microsecond))
	}
	err = inside(c.net.client, func() error { return connects(&r) })
	r.peak = peakOf(cmd)
	return r, err
}

// stopProxy ends a proxy and removes its rules, for the next one.
func stopProxy(cmd *exec.Cmd, c *cluster, who contender) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	clean := exec.Command("nsenter", "--net=/run/netns/"+c.net.node, who.binary, "--cleanup")
	if out, err := clean.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s --cleanup: %v: %s\n", who.name, err, out)
	}
}

// awaitAll returns when every virtual IP has answered once.
func (c *cluster) awaitAll(ctx context.Context) error {
	var next atomic.Int64
	deadline := time.Now().Add(patience)
	worker := func() error {
		for {
			i := int(next.Add(1) - 1)
			if i >= c.size.services {
				return nil
			}
			for {
				_, err := ask(netip.AddrPortFrom(vip(i), vipPort), unanswered)
				if err == nil {
					break
				}
				if ctx.Err() != nil || time.Now().After(deadline) {
					return fmt.Errorf("%s does not answer: %w", vip(i), errors.Join(ctx.Err(), err))
				}
				time.Sleep(2 * time.Millisecond)
			}
		}
	}
	const workers = 4
	done := make(chan error, workers)
	for range workers {
		go func() { done <- inside(c.net.client, worker) }()
	}
	var errs []error
	for range workers {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

// updater makes updates of one kind after the other and watches for their effect.
type updater struct {
	c      *cluster
	cmd    *exec.Cmd
	result *result
	count  int
	used   int
}

func (u *updater) run(ctx context.Context, k kind) error {
	before := cpuOf(u.cmd)
	for n := range u.count {
		// Services from all over, none twice.
		i := n * u.c.size.services / u.count
		took, err := u.update(ctx, k, i)
		if err != nil {
			return err
		}
		u.result.latency[k] = append(u.result.latency[k], took)
	}
	u.result.cpu[k] = cpuOf(u.cmd).since(before, u.count)
	return nil
}

func (u *updater) update(ctx context.Context, k kind, i int) (time.Duration, error) {
	const path = "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices"
	// All addresses are new each time, so that the first answer shows it.
	n := map[kind]int{replaceAll: 0, addOne: 1, removeOne: -1}[k] + u.c.size.endpoints
	switch k {
	case replaceAll, addOne, removeOne:
		fresh := u.spares(n)
		return u.timed(ctx, i, func() error {
			return u.c.api(ctx, http.MethodPut, path+"/"+serviceName(i)+"-1", slice(i, fresh))
		}, func(from netip.Addr, err error) bool { return err == nil && contains(fresh, from) })
	case addService:
		// One more: deleted again by the next kind.
		extra := u.c.size.services + i
		if err := u.c.api(ctx, http.MethodPost, path, slice(extra, u.spares(u.c.size.endpoints))); err != nil {
			return 0, err
		}
		return u.timed(ctx, extra, func() error {
			return u.c.api(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/services", service(extra))
		}, func(_ netip.Addr, err error) bool { return err == nil })
	case delService:
		extra := u.c.size.services + i
		took, err := u.timed(ctx, extra, func() error {
			return u.c.api(ctx, http.MethodDelete, "/api/v1/namespaces/"+namespace+"/services/"+serviceName(extra), nil)
		}, func(_ netip.Addr, err error) bool { return err != nil })
		return took, errors.Join(err, u.c.api(ctx, http.MethodDelete, path+"/"+serviceName(extra)+"-1", nil))
	}
	return 0, fmt.Errorf("unknown kind %q", k)
}

// spares returns addresses that no endpoint has had.
func (u *updater) spares(n int) []netip.Addr {
	out := make([]netip.Addr, n)
	for i := range out {
		u.used++
		out[i] = spare(u.used)
	}
	return out
}

func contains(all []netip.Addr, a netip.Addr) bool { return slices.Contains(all, a) }

// timed makes an update and returns how long after its answer the virtual IP shows it.
func (u *updater) timed(ctx context.Context, i int, do func() error, shows func(netip.Addr, error) bool) (time.Duration, error) {
	if err := do(); err != nil {
		return 0, err
	}
	begin := time.Now()
	var silent int
	var since time.Time
	for {
		attempt := time.Now()
		from, err := ask(netip.AddrPortFrom(vip(i), vipPort), dropped)
		switch {
		case !shows(from, err):
			silent = 0
		case err == nil:
			return time.Since(begin), nil
		default:
			// A machine that is busy with rules may be late with one answer.
			if silent++; silent == 1 {
				since = attempt
			}
			if silent == gone {
				return since.Sub(begin), nil
			}
			continue
		}
		if ctx.Err() != nil || time.Since(begin) > patience {
			return 0, fmt.Errorf("%s does not show the update: last answer %v, %w", vip(i), from, errors.Join(ctx.Err(), err))
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// dropped is how long an answer is waited for: the address of a Service that is not
// there may be dropped. A connection takes a tenth of a millisecond. It is unanswered for
// longer during a start, when there is more to do.
const (
	dropped    = time.Millisecond
	unanswered = 5 * time.Millisecond
)

// gone is how many answers in a row have to be missing from a Service that is deleted.
const gone = 10

// connects compares the way through a virtual IP with the direct one, in turns.
func connects(r *result) error {
	for n := range 1000 {
		for to, out := range map[netip.AddrPort]*[]time.Duration{
			netip.AddrPortFrom(vip(n%100), vipPort):     &r.viaVIP,
			netip.AddrPortFrom(spare(1+n%100), podPort): &r.direct,
		} {
			begin := time.Now()
			if _, err := ask(to, time.Second); err != nil {
				return err
			}
			*out = append(*out, time.Since(begin))
		}
	}
	return nil
}

// cpu is the CPU time of a process itself and of its children that ended.
type cpu struct{ own, children time.Duration }

func (c cpu) all() time.Duration { return c.own + c.children }

// since is the share of each of count steps that were taken since before.
func (c cpu) since(before cpu, count int) cpu {
	n := time.Duration(count)
	return cpu{(c.own - before.own) / n, (c.children - before.children) / n}
}

func cpuOf(cmd *exec.Cmd) cpu {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		return cpu{}
	}
	// The name, in parentheses, may hold blanks.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	ticks := func(fields []string) time.Duration {
		var sum int64
		for _, f := range fields {
			n, _ := strconv.ParseInt(f, 10, 64)
			sum += n
		}
		const userHZ = 100
		return time.Duration(sum) * time.Second / userHZ
	}
	return cpu{own: ticks(fields[11:13]), children: ticks(fields[13:15])} // utime, stime, cutime, cstime of proc(5)
}

func peakOf(cmd *exec.Cmd) int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n
		}
	}
	return 0
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(d))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}
