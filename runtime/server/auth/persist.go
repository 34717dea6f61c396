package auth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// How the kubelet asks its API server about requests: five times, with waits of half a
// second and half as long again each time, for half a minute at most.
const (
	attempts   = 5
	firstWait  = 500 * time.Millisecond
	askTimeout = 30 * time.Second
)

// maxAsking is how many questions of a kind are asked at the same time. Strangers can make
// any number; the kubelet has more to ask the API server than theirs.
const maxAsking = 10

// errUnanswered is why somebody is refused when the API server could not be asked.
var errUnanswered = errors.New("the API server gave no answer")

// asker asks the API server. Those who ask the same at the same time get one answer.
type asker[V any] struct {
	slots chan struct{}
	same  singleflight.Group
}

func newAsker[V any]() *asker[V] { return &asker[V]{slots: make(chan struct{}, maxAsking)} }

// ask waits for an answer until ctx ends. The answer is for all who ask, so the question
// goes on without the one who asked first, for askTimeout at most.
func (a *asker[V]) ask(ctx context.Context, k key, call func(context.Context) (V, error)) (V, error) {
	result := a.same.DoChan(string(k[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: too much is being asked", errUnanswered)
		}
		return call(ctx)
	})
	var none V
	select {
	case r := <-result:
		answer, _ := r.Val.(V)
		return answer, r.Err
	case <-ctx.Done():
		return none, fmt.Errorf("%w before the request ended: %w", errUnanswered, context.Cause(ctx))
	}
}

// persist calls until it succeeds, fails in a way that another call would, too, or it has
// been enough.
func persist(ctx context.Context, call func() error) error {
	pause := firstWait
	for attempt := 1; ; attempt++ {
		err := call()
		if err == nil {
			return nil
		}
		if attempt == attempts || !passing(err) {
			return fmt.Errorf("%w: %w", errUnanswered, err)
		}
		timer := time.NewTimer(pause + rand.N(pause/5)) //nolint:gosec // what comes at the same time is only spread
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", errUnanswered, err)
		}
		pause += pause / 2
	}
}

// passing reports whether an error may be over with the next call: the server had a fault,
// too much to do, or lost the connection. A server that cannot be reached is another
// matter: its clients shall hear of that at once.
func passing(err error) bool {
	if apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err) || errors.Is(err, syscall.ECONNRESET) {
		return true
	}
	if _, wait := apierrors.SuggestsClientDelay(err); wait {
		return true
	}
	// The HTTP/2 client of net/http has no name for it.
	return strings.Contains(err.Error(), "http2: client connection lost")
}
