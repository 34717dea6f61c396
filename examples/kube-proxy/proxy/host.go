package proxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/ipvs"
	"github.com/nodekit-go/nodekit/proxier/sysctl"
)

// conntrackOf returns what the file asks of connection tracking.
func conntrackOf(c *config.Config) sysctl.Conntrack {
	seconds := func(d *metav1.Duration) time.Duration {
		if d == nil {
			return 0
		}
		return d.Duration
	}
	return sysctl.Conntrack{
		MaxPerCore:     int(*c.Conntrack.MaxPerCore),
		Min:            int(*c.Conntrack.Min),
		TCPEstablished: seconds(c.Conntrack.TCPEstablishedTimeout),
		TCPCloseWait:   seconds(c.Conntrack.TCPCloseWaitTimeout),
		UDP:            c.Conntrack.UDPTimeout.Duration,
		UDPStream:      c.Conntrack.UDPStreamTimeout.Duration,
		TCPBeLiberal:   c.Conntrack.TCPBeLiberal,
	}
}

// PrepareHost does the part that needs more than CAP_NET_ADMIN, for a Proxy that has no
// more: it sets connection tracking, what else the mode needs below /proc/sys, and the
// process's place in the order of the kernel's out-of-memory killer. The error joins
// what could not be done; all else is.
func PrepareHost(ctx context.Context, cfg Config) error {
	if err := cfg.complete(); err != nil {
		return err
	}
	_, err := prepareHost(cfg)
	if modeOf(cfg.Proxy) != config.IPTables {
		return err
	}
	b, newErr := newIPTables(cfg, hooks{}, nil)
	if newErr != nil {
		return errors.Join(err, newErr)
	}
	return errors.Join(err, b.Prepare(ctx))
}

// prepareHost does what of that no Backend does by itself, and tells whether it has changed
// a parameter.
func prepareHost(cfg Config) (changed bool, err error) {
	host := sysctl.Host{}
	changes, err := host.Apply(conntrackOf(cfg.Proxy).Settings(host.CPUs()))
	for _, c := range changes {
		cfg.Log.Info("kernel parameter set", "parameter", c.Path, "before", c.Before, "now", c.Value)
	}
	if err != nil {
		err = fmt.Errorf("set connection tracking: %w; conntrack.maxPerCore 0 leaves its size alone", err)
	}
	if modeOf(cfg.Proxy) == config.IPVS {
		err = errors.Join(err, ipvs.Prepare(ipvs.Config{StrictARP: cfg.Proxy.IPVS.StrictARP}))
	}
	return len(changes) > 0, errors.Join(err, setOOMScore(*cfg.Proxy.OOMScoreAdj))
}

// host prepares the host at the start, and again while that fails: the module that has the
// parameters of connection tracking may be loaded by the first rules. It is a
// proxier.Follower.
type host struct {
	prepare func() (changed bool, err error)
	problem func(error)
	// reset has rules made anew that depend on parameters.
	reset  func()
	failed bool          // belongs to Run, and to try before it
	ready  chan struct{} // closed when rules are in force
	once   sync.Once
}

// hostRetry is the pause between attempts at what fails for good.
const hostRetry = time.Minute

// Reset implements proxier.Follower.
func (h *host) Reset(*proxier.State) { h.once.Do(func() { close(h.ready) }) }

// Applied implements proxier.Follower.
func (h *host) Applied(proxier.Delta) {}

// try prepares the host once and returns whether it has changed a parameter.
func (h *host) try() bool {
	changed, err := h.prepare()
	h.failed = err != nil
	h.problem(err)
	return changed
}

// Run tries again when rules are in force for the first time, and from then on as long as
// it fails. It returns nil when ctx ends.
func (h *host) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-h.ready:
	}
	for h.failed {
		if h.try() {
			h.reset()
		}
		if h.failed && !sleep(ctx, hostRetry) {
			return nil
		}
	}
	<-ctx.Done()
	return nil
}

// sleep returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func setOOMScore(score int32) error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(int(score))), 0o644); err != nil {
		return fmt.Errorf("set oomScoreAdj to %d: %w", score, err)
	}
	return nil
}
