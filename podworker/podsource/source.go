package podsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Client is what a Source needs of the API server: the pods of all namespaces. The
// PodInterface of client-go is one. Errors are told apart as
// k8s.io/apimachinery/pkg/api/errors does, and the methods return when their ctx ends.
type Client interface {
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Set is all that the API server has bound to a node at one moment, each list in the
// order of creation. The pods are shared: they are read only.
type Set struct {
	// Pods have to run.
	Pods []*corev1.Pod
	// Mirrors are pictures of static pods, which run from another source
	// (https://kubernetes.io/docs/tasks/configure-pod-container/static-pod/). Nobody
	// runs them.
	Mirrors []*corev1.Pod
}

// The defaults of a Config. Watches end at the server after five to ten minutes, as those
// of client-go, so that they spread over the servers; the waits between attempts are
// those of client-go, too.
const (
	defaultWatch   = 5 * time.Minute
	defaultTimeout = time.Minute
	firstWait      = 800 * time.Millisecond
	longestWait    = 30 * time.Second
	// wellFor is how long a watch has to last for the next failure to be a first one.
	wellFor = 2 * time.Minute
	// watchSlack is how much later than it has to a server may end a watch.
	watchSlack = 30 * time.Second
)

// Config says whose pods are read, and how. Node is required.
type Config struct {
	// Node is the name of the node whose pods are read.
	Node string
	// Timeout is how long the API server may take for a list; 0: 1 m.
	Timeout time.Duration
	// Watch is how long a watch lasts, up to twice as long by chance; 0: 5 m.
	Watch time.Duration
	// Hooks are told what happens.
	Hooks Hooks
	// Log gets failures, and when they end; nil discards.
	Log *slog.Logger
}

// Hooks are called by the goroutine of Run, which waits for them. Any may be nil.
type Hooks struct {
	// Answered is called whenever the API server has told how the pods of the node are:
	// with a list, with a change, and about once a minute that nothing has changed.
	Answered func()
	// Failed is called after each attempt to list or to watch that failed.
	Failed func(error)
}

func (c *Config) complete() error {
	switch {
	case c.Node == "":
		return errors.New("podsource: Config.Node is empty, want the name of the node whose pods are read")
	case c.Timeout < 0:
		return fmt.Errorf("podsource: Config.Timeout is %s, want 0 (%s) or more", c.Timeout, defaultTimeout)
	case c.Watch < 0 || c.Watch > 0 && c.Watch < time.Second:
		return fmt.Errorf("podsource: Config.Watch is %s, want 0 (%s) or at least a second", c.Watch, defaultWatch)
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Watch == 0 {
		c.Watch = defaultWatch
	}
	if c.Hooks.Answered == nil {
		c.Hooks.Answered = func() {}
	}
	if c.Hooks.Failed == nil {
		c.Hooks.Failed = func(error) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Source reads the pods of a node from an API server.
type Source struct {
	client   Client
	cfg      Config
	selector string
	// now ends a wait between two attempts.
	now chan struct{}
}

// New returns a Source. It asks nothing yet.
func New(client Client, cfg Config) (*Source, error) {
	if client == nil {
		return nil, errors.New("podsource: New needs a Client")
	}
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Source{client: client, cfg: cfg, selector: fields.OneTermEqualSelector("spec.nodeName", cfg.Node).String(), now: make(chan struct{}, 1)}, nil
}

// Retry ends the wait between two attempts, if Run waits, as when a network has come up. It
// does not wait itself.
func (s *Source) Retry() {
	select {
	case s.now <- struct{}{}:
	default:
	}
}

// Run calls set with the whole set once the API server has told it, and after each
// change, until ctx ends; then it returns nil. It is called once and calls set from its
// own goroutine; changes that come while set works are delivered together.
//
// What is delivered never goes back in time: lists are read at their newest, not from
// what a server may have cached. While the API server does not answer, set is not called,
// and Run tries again after 0.8 to 30 seconds. A watch that breaks goes on where it was;
// if the server has forgotten where that was, a new list takes its place.
func (s *Source) Run(ctx context.Context, set func(Set)) error {
	f := &follower{Source: s, set: set, known: map[types.UID]*corev1.Pod{}, seen: map[types.UID]string{}}
	wait := backoff{}
	for ctx.Err() == nil {
		began := time.Now()
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > wellFor {
			wait = backoff{}
		}
		switch {
		case err == nil && time.Since(began) > time.Second:
			continue // the server ends watches now and then
		case !errors.Is(err, errForgotten):
			f.failed(err)
		}
		s.sleep(ctx, wait.next())
	}
	return nil
}

// sleep waits, or until ctx ends or Retry is called.
func (s *Source) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.now:
	}
}
