package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Client is the API of Leases in one namespace. The LeaseInterface of client-go is one.
// Its errors have to be those of the server, so that IsNotFound, IsAlreadyExists and
// IsConflict of k8s.io/apimachinery/pkg/api/errors tell them apart, and its methods
// have to return when their ctx ends.
type Client interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

const (
	// DefaultNamespace is where Kubernetes keeps the Leases of nodes
	// (NamespaceNodeLease of k8s.io/api/core/v1).
	DefaultNamespace = "kube-node-lease"
	// DefaultDuration is the kubelet's nodeLeaseDurationSeconds
	// (kubelet.config.k8s.io/v1beta1).
	DefaultDuration = 40 * time.Second
	// MaxTimeout bounds the default of Config.Timeout, as the kubelet bounds the
	// timeout of its heartbeats.
	MaxTimeout = 10 * time.Second
)

// Config configures a Keeper. Name is required.
type Config struct {
	// Name is the name of the Lease; for a node, the node's.
	Name string
	// Namespace is that of the Client; it stands in objects and messages. Empty:
	// DefaultNamespace.
	Namespace string
	// Holder is the Lease's holderIdentity; empty: Name.
	Holder string
	// Duration is the Lease's leaseDurationSeconds, in whole seconds; 0:
	// DefaultDuration.
	Duration time.Duration
	// Period is the time from one renewal to the next, up to 4 % longer by chance, so
	// that those of many nodes spread. It is at most half of Duration; 0: a quarter.
	Period time.Duration
	// Timeout is the longest that a request may take. With a Link the first two attempts
	// at a renewal have half of it, those after them all of it: a hung server is left
	// early, and a slow one is given its time. Before the first renewal, when nothing can
	// expire, and without a Link, when the next attempt goes the same way, all have all of
	// it. 0: a quarter of Duration, at most MaxTimeout.
	Timeout time.Duration
	// MaxSkew is by how much the clocks of the server and of this machine may differ
	// before the Keeper warns. It needs Link; 0: Period.
	MaxSkew time.Duration
	// Node returns the UID of the Node named Name, which then owns the Lease: with the
	// Node the server deletes the Lease. The Lease is not created before Node returns a
	// UID; one that exists is renewed meanwhile and gets its owner later. An empty UID
	// is an error. nil: the Lease has no owner.
	Node func(ctx context.Context) (types.UID, error)
	// Link is the connection of the Client, dropped after failures; nil: the Client has
	// to see to that itself.
	Link *Link
	// Hooks are told what happens.
	Hooks Hooks
	// Log gets the failures and recoveries; nil discards.
	Log *slog.Logger
}

// Hooks are called by a Keeper, one at a time; the next request waits for them. nil
// hooks are not called.
type Hooks struct {
	// Renewed is called after each renewal.
	Renewed func(Renewal)
	// Failed is called after each attempt that failed.
	Failed func(Failure)
}

// Renewal is one that succeeded, the creation of the Lease included.
type Renewal struct {
	// Time is the Lease's renewTime.
	Time time.Time
	// Gap is the time since the renewal before, 0 for the first one of a Keeper.
	Gap time.Duration
	// Attempts counts those that it took: 1 if none failed.
	Attempts int
	// Took is the duration of the last request.
	Took time.Duration
	// Skew is how far the server's clock is ahead of ours at least, 0 if that is not
	// known.
	Skew time.Duration
}

// Failure is an attempt that failed.
type Failure struct {
	// Attempt counts those since the last renewal, from 1.
	Attempt int
	// Silence is the time since the last renewal, 0 before the first one.
	Silence time.Duration
	// Err says what was tried on which Lease.
	Err error
}

// validate names the first field that is wrong and fills defaults in.
func (c Config) validate() (Config, error) {
	if c.Name == "" {
		return c, errors.New("lease: Config.Name is empty, want the name of the Lease, for a node the node's")
	}
	c.Namespace = cmp.Or(c.Namespace, DefaultNamespace)
	c.Holder = cmp.Or(c.Holder, c.Name)
	c.Duration = cmp.Or(c.Duration, DefaultDuration)
	if c.Duration < time.Second || c.Duration%time.Second != 0 {
		return c, fmt.Errorf("lease: Config.Duration is %s, want whole seconds, at least one", c.Duration)
	}
	c.Period = cmp.Or(c.Period, c.Duration/4)
	if c.Period < 0 || c.Period > c.Duration/2 {
		return c, fmt.Errorf("lease: Config.Period is %s, want at most half of the duration of %s", c.Period, c.Duration)
	}
	c.Timeout = cmp.Or(c.Timeout, min(c.Duration/4, MaxTimeout))
	if c.Timeout < 0 || c.Timeout >= c.Duration {
		return c, fmt.Errorf("lease: Config.Timeout is %s, want less than the duration of %s", c.Timeout, c.Duration)
	}
	c.MaxSkew = cmp.Or(c.MaxSkew, c.Period)
	if c.MaxSkew < 0 {
		return c, fmt.Errorf("lease: Config.MaxSkew is %s, must not be negative", c.MaxSkew)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("lease", c.Namespace+"/"+c.Name)
	return c, nil
}

// Keeper keeps one Lease alive. Make one with New.
type Keeper struct {
	client Client
	cfg    Config
	state  state
	// renewed is when the last renewal began, zero before the first.
	renewed time.Time
	// skewed says that the last renewal found the clocks too far apart.
	skewed bool
}

// New returns a Keeper for a Lease. It makes no request yet.
func New(c Client, cfg Config) (*Keeper, error) {
	if c == nil {
		return nil, errors.New("lease: the Client is nil")
	}
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	return &Keeper{client: c, cfg: cfg}, nil
}

// Run creates the Lease if there is none, and renews it, until ctx ends; then it
// returns nil. Whatever the server answers, it goes on.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		timer.Reset(k.turn(ctx))
	}
}

// turn makes one request and returns how long to wait for the next one.
func (k *Keeper) turn(ctx context.Context) time.Duration {
	begin := time.Now()
	act := k.state.next(k.cfg.Node != nil)
	if act == create || act == renew {
		k.state = k.state.sending(begin)
	}
	got, err := k.request(ctx, act, begin)
	if ctx.Err() != nil {
		return 0
	}
	k.state = k.state.after(act, got, err)
	switch {
	case k.state.renewed:
		return k.celebrate(ctx, begin)
	case k.state.failed:
		return k.complain(act, err)
	default:
		return 0
	}
}

// request does one thing, within its deadline.
func (k *Keeper) request(ctx context.Context, act action, now time.Time) (answer, error) {
	limit := k.cfg.Timeout
	if k.cfg.Link != nil && !k.renewed.IsZero() {
		// Something can expire, and the next attempt can go another way.
		limit = timeout(k.state.failures, limit)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var got answer
	var err error
	switch act {
	case findOwner:
		got.owner, err = k.owner(ctx)
	case read:
		got.lease, err = k.client.Get(ctx, k.cfg.Name, metav1.GetOptions{})
	case create:
		got.lease, err = k.client.Create(ctx, k.cfg.write(nil, k.state.owner, now), metav1.CreateOptions{})
	case renew:
		got.lease, err = k.client.Update(ctx, k.cfg.write(k.state.lease, k.state.owner, now), metav1.UpdateOptions{})
	}
	if err == nil && act != findOwner && got.lease == nil {
		err = errors.New("the client returned neither a Lease nor an error")
	}
	return got, err
}

// owner asks for the UID of the Node.
func (k *Keeper) owner(ctx context.Context) (types.UID, error) {
	uid, err := k.cfg.Node(ctx)
	if err == nil && uid == "" {
		err = errors.New("its UID is empty")
	}
	return uid, err
}

// celebrate tells of a renewal whose last request began at a time, looks after the
// owner while there is time, and returns the wait for the next one.
func (k *Keeper) celebrate(ctx context.Context, begin time.Time) time.Duration {
	sent := k.state.at
	r := Renewal{Time: sent, Attempts: k.state.failures + 1, Took: time.Since(begin)}
	if !k.renewed.IsZero() {
		r.Gap = sent.Sub(k.renewed)
	}
	k.renewed = sent
	if k.cfg.Link != nil {
		r.Skew = k.cfg.Link.Skew()
	}
	k.watchSkew(r.Skew)
	if r.Attempts > 1 {
		k.cfg.Log.Info("lease is renewed again", "attempts", r.Attempts, "gap", r.Gap.Round(time.Millisecond))
	}
	if k.cfg.Hooks.Renewed != nil {
		k.cfg.Hooks.Renewed(r)
	}
	k.state.failures = 0
	next := sent.Add(jitter(k.cfg.Period))
	if k.cfg.Node != nil && k.state.owner == "" {
		k.adopt(ctx)
	}
	return time.Until(next)
}

// adopt finds the owner that the next renewal writes. It may fail: it is tried again
// after each renewal.
func (k *Keeper) adopt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, min(k.cfg.Timeout, k.cfg.Period/2))
	defer cancel()
	uid, err := k.owner(ctx)
	if err != nil {
		k.cfg.Log.Debug("lease has no owner yet", "err", err)
		return
	}
	k.state.owner = uid
}

// complain tells of a failure and returns the wait for the next attempt.
func (k *Keeper) complain(act action, err error) time.Duration {
	f := Failure{
		Attempt: k.state.failures,
		Err:     fmt.Errorf("%s lease %s/%s: %w", act, k.cfg.Namespace, k.cfg.Name, err),
	}
	if !k.renewed.IsZero() {
		f.Silence = time.Since(k.renewed)
	}
	if k.cfg.Link != nil && f.Attempt > 1 {
		// What the connection leads to may be the cause, even if it answers.
		k.cfg.Link.Drop()
	}
	wait := retryWait(f.Attempt, k.cfg.Duration, err)
	if worthSaying(f.Attempt) {
		k.cfg.Log.Warn("lease is not renewed, trying again", "attempt", f.Attempt, "wait", wait.Round(time.Millisecond),
			"silence", f.Silence.Round(time.Millisecond), "err", f.Err)
	}
	if k.cfg.Hooks.Failed != nil {
		k.cfg.Hooks.Failed(f)
	}
	return wait
}

// watchSkew warns when the clocks part, and says when they agree again.
func (k *Keeper) watchSkew(skew time.Duration) {
	skewed := skew.Abs() > k.cfg.MaxSkew
	if skewed == k.skewed {
		return
	}
	k.skewed = skewed
	if skewed {
		k.cfg.Log.Warn("the clocks of the API server and of this machine differ; set one of them right",
			"server-is-ahead-by", skew, "limit", k.cfg.MaxSkew)
		return
	}
	k.cfg.Log.Info("the clocks of the API server and of this machine agree again")
}
