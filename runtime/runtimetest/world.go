package runtimetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// world is the state of a runtime.
type world struct {
	kind         Kind
	script       func(Instance) *Life
	exec         func(context.Context, Exec) ExecResult
	streamingURL string
	forward      func(context.Context, *runtimeapi.PodSandboxConfig, int32, io.ReadWriteCloser) error
	// attached are the goroutines that read what clients send to containers.
	attached sync.WaitGroup

	// mu guards everything below, and all that hangs on it.
	mu         sync.Mutex
	serial     int
	sandboxes  map[string]*sandbox
	containers map[string]*container
	// sandboxNames and containerNames are the names in use and the ids that have them.
	sandboxNames, containerNames map[string]string
	// lives are those of SetLives, by the name of the container.
	lives   map[string][]Life
	images  imageStore
	podIPs  ipPool
	events  broadcast
	network networkState
	streams Streams
}

func newWorld(cfg Config) (*world, error) {
	pool, err := newIPPool(cfg.PodCIDRs)
	if err != nil {
		return nil, err
	}
	return &world{
		kind:         cfg.Kind,
		script:       cfg.Script,
		exec:         cfg.Exec,
		streamingURL: cfg.StreamingURL,
		forward:      cfg.Forward,
		sandboxes:    make(map[string]*sandbox),
		containers:   make(map[string]*container),

		sandboxNames:   make(map[string]string),
		containerNames: make(map[string]string),

		lives:  make(map[string][]Life),
		images: newImageStore(cfg.Images),
		podIPs: pool,
	}, nil
}

// newIDLocked returns an id of the form that containerd uses, 64 hexadecimal digits.
// The same calls give the same ids.
func (w *world) newIDLocked(what string) string {
	w.serial++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", what, w.serial))
	return hex.EncodeToString(sum[:])
}

// forget ends all lives and drops what they left.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.containers {
		c.dropLocked()
	}
	clear(w.containers)
	clear(w.sandboxes)
	clear(w.containerNames)
	clear(w.sandboxNames)
}

// notFound is the error for an unknown id.
func notFound(what, id string) error {
	return status.Errorf(codes.NotFound, "an error occurred when try to find %s %q: not found", what, id)
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, "runtimetest: "+format, args...)
}

// clone copies a message, so that no caller shares state with the world.
func clone[M proto.Message](m M) M { return proto.CloneOf(m) }

// matchLabels reports whether labels hold all of selector.
func matchLabels(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// ipPool gives out addresses, each once, in order.
type ipPool struct {
	prefixes []netip.Prefix
	next     []netip.Addr
}

func newIPPool(prefixes []netip.Prefix) (ipPool, error) {
	if len(prefixes) == 0 {
		prefixes = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 88}), 16)}
	}
	for _, p := range prefixes {
		if !p.IsValid() {
			return ipPool{}, fmt.Errorf("runtimetest: Config.PodCIDRs has an invalid prefix")
		}
	}
	p := ipPool{prefixes: slices.Clone(prefixes)}
	for _, prefix := range prefixes {
		// The first addresses are the network's own and its gateway's.
		p.next = append(p.next, prefix.Masked().Addr().Next().Next())
	}
	return p, nil
}

// take returns an address of each prefix.
func (p *ipPool) take() ([]netip.Addr, error) {
	ips := slices.Clone(p.next)
	for i, ip := range ips {
		if !p.prefixes[i].Contains(ip) {
			return nil, status.Errorf(codes.Unknown, "failed to setup network for sandbox: no address left in %s", p.prefixes[i])
		}
	}
	for i := range p.next {
		p.next[i] = p.next[i].Next()
	}
	return ips, nil
}
