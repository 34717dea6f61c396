package probes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestLocalFaultsAreNoAnswer(t *testing.T) {
	wrap := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"no descriptor", wrap(syscall.EMFILE), true},
		{"no local port", wrap(syscall.EADDRNOTAVAIL), true},
		{"no memory", wrap(syscall.ENOBUFS), true},
		{"refused", wrap(syscall.ECONNREFUSED), false},
		{"no route", wrap(syscall.EHOSTUNREACH), false},
		{"time is over", context.DeadlineExceeded, false},
		{"nothing", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := localFault(tt.err); got != tt.want {
				t.Errorf("localFault(%v) = %t, want %t", tt.err, got, tt.want)
			}
		})
	}
	if !noAnswer(t.Context(), fmt.Errorf("get: %w", fmt.Errorf("%w: %w", ErrLocal, syscall.EMFILE))) {
		t.Error("a wrapped ErrLocal counts as an answer")
	}
	if !errors.Is(fmt.Errorf("%w: %w", ErrLocal, syscall.EMFILE), syscall.EMFILE) {
		t.Error("the cause is lost")
	}
}
