package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Client is the API of Nodes. The NodeInterface of client-go is one. Its errors have
// to be those of the server, and its methods have to return when their ctx ends.
type Client interface {
	Create(ctx context.Context, node *corev1.Node, opts metav1.CreateOptions) (*corev1.Node, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Node, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error)
}

// Pressures says which resources of the machine are short. A threshold that was met
// keeps its pressure for a while; that is up to the implementation.
type Pressures interface {
	MemoryPressure() bool
	DiskPressure() bool
	PIDPressure() bool
}

// The kubelet's defaults (kubelet.config.k8s.io/v1beta1).
const (
	// DefaultPeriod is its nodeStatusUpdateFrequency.
	DefaultPeriod = 10 * time.Second
	// DefaultReportPeriod is its nodeStatusReportFrequency.
	DefaultReportPeriod = 5 * time.Minute
	// DefaultTimeout is the timeout of its heartbeats.
	DefaultTimeout = 10 * time.Second
)

// Config configures a Reporter. Name and Facts are required.
type Config struct {
	// Name is the name of the Node.
	Name string
	// Registration is what a Node is created with that does not exist; nil: none is
	// created, somebody else does that.
	Registration *Registration
	// Facts collects what the status tells. It is called once for each report and has
	// Timeout. What it returns together with an error is reported, and the error is
	// logged: fields that are nil stay as they were.
	Facts func(ctx context.Context) (Facts, error)
	// NotReady says why the node is not ready, cheaply: it is asked ten times a second
	// until the node is ready for the first time. nil: it is always ready. See Health.
	// A Node that was ready before Run stays so for up to 10 s after it began, unless
	// the machine was booted meanwhile or is going down: who has just started does not
	// know yet how the node is.
	NotReady func() []string
	// Pressures says what is short; nil: nothing is.
	Pressures Pressures
	// Period is the time from one computation of the status to the next, up to 4 %
	// longer by chance; 0: DefaultPeriod.
	Period time.Duration
	// ReportPeriod is the time after which a status is sent that has not changed; the
	// first such time is up to half of it shorter or longer, by chance, so that the
	// nodes of a cluster spread. 0: DefaultReportPeriod.
	ReportPeriod time.Duration
	// Timeout is the longest that one request may take; 0: DefaultTimeout.
	Timeout time.Duration
	// Hooks are told what happens.
	Hooks Hooks
	// Log gets failures and changes; nil discards.
	Log *slog.Logger
}

// Hooks are called by a Reporter, one at a time; the next report waits for them. nil
// hooks are not called.
type Hooks struct {
	// Registered is called when the Node was created, or found for the first time.
	Registered func(*corev1.Node)
	// Reported is called with the Node as the server returned it: after each status
	// that was sent, and each look after which nothing was. It must not be changed.
	Reported func(*corev1.Node)
	// Event is called for what the kubelet tells in events of the Node.
	Event func(Event)
	// Failed is called after an attempt that failed. attempt counts from 1; after the
	// first one a connection may be worth dropping.
	Failed func(attempt int, err error)
}

// Event is one to be recorded for the Node. Types, reasons and messages are those of
// the kubelet.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type            string
	Reason, Message string
}

// validate names the first field that is wrong and fills defaults in.
func (c Config) validate() (Config, error) {
	switch {
	case c.Name == "":
		return c, errors.New("nodestatus: Config.Name is empty, want the name of the Node")
	case c.Facts == nil:
		return c, errors.New("nodestatus: Config.Facts is nil, want what collects the node's facts")
	}
	for _, d := range []struct {
		field string
		value *time.Duration
		def   time.Duration
	}{
		{"Period", &c.Period, DefaultPeriod},
		{"ReportPeriod", &c.ReportPeriod, DefaultReportPeriod},
		{"Timeout", &c.Timeout, DefaultTimeout},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("nodestatus: Config.%s is %s, must not be negative", d.field, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if c.Registration != nil {
		if err := c.Registration.validate(); err != nil {
			return c, fmt.Errorf("nodestatus: Config.Registration: %w", err)
		}
	}
	if c.NotReady == nil {
		c.NotReady = func() []string { return nil }
	}
	if c.Pressures == nil {
		c.Pressures = noPressure{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("node", c.Name)
	return c, nil
}

// noPressure is a machine that has enough of everything.
type noPressure struct{}

// MemoryPressure implements Pressures.
func (noPressure) MemoryPressure() bool { return false }

// DiskPressure implements Pressures.
func (noPressure) DiskPressure() bool { return false }

// PIDPressure implements Pressures.
func (noPressure) PIDPressure() bool { return false }

// Reporter keeps the status of one Node. Make one with New.
type Reporter struct {
	client Client
	cfg    Config
	wake   chan struct{}
	// known is closed when the Node is known for the first time.
	known chan struct{}

	mu sync.Mutex // guards uid
	// uid is that of the Node, empty as long as there is none.
	uid types.UID

	// The fields below belong to Run.

	// began is when it was called.
	began time.Time
	// node is the Node as the server last returned it, nil if there is none.
	node *corev1.Node
	// adopted says that a Node that was there before was reconciled.
	adopted bool
	// sent is when a status was last sent; due is how long after it the next one is, if
	// nothing changes.
	sent time.Time
	due  time.Duration
	// ready says that the node was ready once, unready that it was not when it was last
	// looked at.
	ready, unready bool
	// unschedulable is what the last Node said, for the events of a change.
	unschedulable bool
}

// New returns a Reporter for a Node. It makes no request yet.
func New(c Client, cfg Config) (*Reporter, error) {
	if c == nil {
		return nil, errors.New("nodestatus: the Client is nil")
	}
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	return &Reporter{client: c, cfg: cfg, wake: make(chan struct{}, 1), known: make(chan struct{})}, nil
}

// Wake makes the Reporter compute the status at once, for example because the node is
// not ready any more. It never blocks.
func (r *Reporter) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// UID returns the UID of the Node; it waits until there is one, or ctx ends. It fits
// lease.Config.Node.
func (r *Reporter) UID(ctx context.Context) (types.UID, error) {
	select {
	case <-r.known:
	case <-ctx.Done():
		return "", fmt.Errorf("node %s is not registered yet: %w", r.cfg.Name, ctx.Err())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uid == "" {
		return "", fmt.Errorf("node %s has been deleted", r.cfg.Name)
	}
	return r.uid, nil
}

// setNode takes what the server returned; nil says that the Node is gone.
func (r *Reporter) setNode(n *corev1.Node) {
	r.node = n
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uid = ""
	if n == nil {
		return
	}
	r.uid = n.UID
	select {
	case <-r.known:
	default:
		close(r.known)
	}
}
