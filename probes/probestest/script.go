package probestest

import (
	"context"
	"sync"
	"time"

	"github.com/nodekit-go/nodekit/probes"
)

// Step is how a Script behaves in one call. The zero value succeeds at once.
type Step struct {
	// Outcome is what the call finds; Unknown stands for Success.
	Outcome probes.Outcome
	// Message is the message of the Result, or the output of the command.
	Message string
	// Err is the error of the call, which then has no Result.
	Err error
	// Takes is how long the call lasts. If its context ends first, the call ends with
	// the error of the context.
	Takes time.Duration
	// Deaf makes the call last as long as Takes whatever happens to its context.
	Deaf bool
	// Panic makes the call panic when it is over.
	Panic bool
}

// Succeed returns a Step that succeeds at once.
func Succeed() Step { return Step{Outcome: probes.Success} }

// Fail returns a Step that fails at once.
func Fail(message string) Step { return Step{Outcome: probes.Failure, Message: message} }

// Call is a call that a Script has got.
type Call struct {
	At time.Time
	// Command and Timeout are those of a command; empty for a prober.
	Command []string
	Timeout time.Duration
	// Took is how long the call lasted; zero while it lasts.
	Took time.Duration
}

// Script goes through steps, one for each call. The last step is repeated; a
// Script without steps succeeds.
type Script struct {
	steps func(n int) Step

	mu       sync.Mutex // guards what follows
	calls    []Call
	inFlight int
	most     int
}

// NewScript returns a Script of the given steps.
func NewScript(steps ...Step) *Script {
	return NewScriptFunc(func(n int) Step {
		if len(steps) == 0 {
			return Step{}
		}
		return steps[min(n, len(steps)-1)]
	})
}

// NewScriptFunc returns a Script whose steps are those that step returns for the
// calls 0, 1, 2 and so on.
func NewScriptFunc(step func(n int) Step) *Script { return &Script{steps: step} }

// Probe makes Script a probes.Prober.
func (s *Script) Probe(ctx context.Context) (probes.Result, error) {
	step, err := s.play(ctx, Call{At: time.Now()})
	if err != nil {
		return probes.Result{}, err
	}
	return probes.Result{Outcome: step.Outcome, Message: step.Message}, nil
}

// Exec is a probes.ExecFunc. A Failure is exit code 1.
func (s *Script) Exec(ctx context.Context, _ string, command []string, timeout time.Duration) (int, []byte, error) {
	step, err := s.play(ctx, Call{At: time.Now(), Command: command, Timeout: timeout})
	switch {
	case err != nil:
		return 0, nil, err
	case step.Outcome == probes.Failure:
		return 1, []byte(step.Message), nil
	}
	return 0, []byte(step.Message), nil
}

// Calls returns the calls so far, in the order in which they began.
func (s *Script) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// InFlight returns how many calls there are now, and how many there were at the
// same time at most.
func (s *Script) InFlight() (now, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight, s.most
}

// play goes through the next step.
func (s *Script) play(ctx context.Context, c Call) (Step, error) {
	s.mu.Lock()
	n := len(s.calls)
	s.calls = append(s.calls, c)
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight--
		s.calls[n].Took = time.Since(c.At)
	}()
	step := s.steps(n)
	if step.Outcome == probes.Unknown {
		step.Outcome = probes.Success
	}
	if err := step.wait(ctx); err != nil {
		return Step{}, err
	}
	if step.Panic {
		panic(step.Message)
	}
	return step, step.Err
}

func (step Step) wait(ctx context.Context) error {
	if step.Takes == 0 {
		return nil
	}
	timer := time.NewTimer(step.Takes)
	defer timer.Stop()
	if step.Deaf {
		<-timer.C
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
