package podsync

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestIsReserved(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{name: "none"},
		{name: "code", err: status.Error(codes.AlreadyExists, "exists"), want: true},
		{
			name: "containerd, sandbox", want: true,
			err: status.Error(codes.Unknown, `failed to reserve sandbox name "web_default_u1_0": name "web_default_u1_0" is reserved for "1c9c"`),
		},
		{
			name: "containerd, container", want: true,
			err: status.Error(codes.Unknown, `failed to reserve container name "app_web_default_u1_0": name "app_web_default_u1_0" is reserved for "9ab0"`),
		},
		{name: "CRI-O", err: status.Error(codes.Unknown, "error reserving pod name k8s_web_default_u1_0 for id 1c9c: name is reserved"), want: true},
		{name: "other", err: status.Error(codes.Unknown, "failed to create shim task")},
		{name: "down", err: status.Error(codes.Unavailable, "connection refused")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := isReserved(tt.err); got != tt.want {
				t.Errorf("isReserved(%v) = %t, want %t", tt.err, got, tt.want)
			}
		})
	}
}

func TestJoinedKeepsTheShortestWait(t *testing.T) {
	pull := func(after time.Duration) error {
		return &startError{container: "a", reason: reasonPull, err: errors.New("no"), after: after}
	}
	tests := []struct {
		name string
		errs []error
		want time.Duration
	}{
		{name: "one", errs: []error{pull(20 * time.Second)}, want: 20 * time.Second},
		{name: "two", errs: []error{pull(20 * time.Second), pull(10 * time.Second)}, want: 10 * time.Second},
		{name: "one without a wait", errs: []error{pull(20 * time.Second), errors.New("x")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := joined(tt.errs)
			var own interface{ RetryAfter() time.Duration }
			got := time.Duration(0)
			if errors.As(err, &own) {
				got = own.RetryAfter()
			}
			if got != tt.want {
				t.Errorf("RetryAfter = %s, want %s", got, tt.want)
			}
			for _, e := range tt.errs {
				if !errors.Is(err, e) {
					t.Errorf("%v does not hold %v", err, e)
				}
			}
		})
	}
	if err := joined(nil); err != nil {
		t.Errorf("joined(nil) = %v", err)
	}
}

func TestWithin(t *testing.T) {
	slow := joined([]error{&startError{reason: reasonPull, err: errors.New("no"), after: time.Minute}})
	tests := []struct {
		name  string
		err   error
		limit time.Duration
		want  time.Duration
	}{
		{name: "no limit", err: slow, want: time.Minute},
		{name: "later", err: slow, limit: time.Hour, want: time.Minute},
		{name: "sooner", err: slow, limit: 20 * time.Second, want: 20 * time.Second},
		{name: "sooner than usual", err: errors.New("x"), limit: 2 * time.Second, want: 2 * time.Second},
		{name: "later than usual", err: errors.New("x"), limit: 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var own interface{ RetryAfter() time.Duration }
			got := time.Duration(0)
			if errors.As(within(tt.err, tt.limit), &own) {
				got = own.RetryAfter()
			}
			if got != tt.want {
				t.Errorf("RetryAfter = %s, want %s", got, tt.want)
			}
		})
	}
}
