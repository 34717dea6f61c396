package proxy

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// PrepareHost does the part that needs more than CAP_NET_ADMIN: it sets connection
// tracking and the process's place in the order of the kernel's out-of-memory
// killer. The error joins what could not be done; all else is.
func PrepareHost(cfg Config) error {
	if err := cfg.complete(); err != nil {
		return err
	}
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
	return errors.Join(err, setOOMScore(*cfg.Proxy.OOMScoreAdj))
}

func setOOMScore(score int32) error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(int(score))), 0o644); err != nil {
		return fmt.Errorf("set oomScoreAdj to %d: %w", score, err)
	}
	return nil
}
