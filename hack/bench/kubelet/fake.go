package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// fakeRuntime serves a runtime that runs nothing on a socket, and writes each half
// second to a file how many calls it got.
func fakeRuntime(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("want fakecri SOCKET FILE")
	}
	s, err := runtimetest.New(runtimetest.Config{Socket: args[0], PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.88.0.0/16")}})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Up(); err != nil {
		return err
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	kinds := map[string]int{}
	total := 0
	for {
		for _, c := range s.Calls() {
			kinds[c.RPC]++
			total++
		}
		s.ForgetCalls()
		next := args[1] + ".new"
		if err := os.WriteFile(next, fmt.Appendf(nil, "%d\n%v\n", total, kinds), 0o600); err != nil {
			return err
		}
		if err := os.Rename(next, args[1]); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// fakeCalls returns how many calls the runtime of the node has got.
func (s *side) fakeCalls() (int, error) {
	data, err := os.ReadFile(filepath.Clean(s.Dir("calls")))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strconv.Atoi(first)
}
