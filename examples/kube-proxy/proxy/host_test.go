package proxy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

// What cannot be set at the start is tried again when rules are in force, since their
// modules bring parameters along, and from then on each minute.
func TestHostIsPreparedUntilItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		var problems []bool
		resets := 0
		h := &host{
			prepare: func() (bool, error) {
				at = append(at, time.Since(begin))
				if len(at) < 4 {
					return false, errors.New("no such file or directory")
				}
				return true, nil
			},
			problem: func(err error) { problems = append(problems, err != nil) },
			reset:   func() { resets++ },
			ready:   make(chan struct{}),
		}
		h.try()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		time.Sleep(10 * time.Second)
		h.Reset(nil)
		h.Reset(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]time.Duration{0, 10 * time.Second, 70 * time.Second, 130 * time.Second}, at); diff != "" {
			t.Errorf("it was tried after (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]bool{true, true, true, false}, problems); diff != "" || resets != 1 {
			t.Errorf("%d resets, problems (-want +got):\n%s", resets, diff)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestLeftoversAreRemovedUntilTheyAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		var problems []bool
		l := newLeftovers(func(context.Context) error {
			if at = append(at, time.Since(begin)); len(at) < 3 {
				return errors.New("device or resource busy")
			}
			return nil
		}, func(err error) { problems = append(problems, err != nil) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		l.Reset(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]time.Duration{0, 5 * time.Second, 15 * time.Second}, at); diff != "" {
			t.Errorf("it was tried after (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]bool{true, true, false}, problems); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestFamiliesOfTheKernel(t *testing.T) {
	both := []proxier.Family{proxier.IPv4, proxier.IPv6}
	for name, tt := range map[string]struct {
		files map[string]string
		want  []proxier.Family
	}{
		"both":              {map[string]string{"net/if_inet6": "", "sys/net/ipv6/conf/all/disable_ipv6": "0\n"}, both},
		"cannot be told":    {map[string]string{"net/if_inet6": ""}, both},
		"no IPv6":           {nil, both[:1]},
		"IPv6 switched off": {map[string]string{"net/if_inet6": "", "sys/net/ipv6/conf/all/disable_ipv6": "1\n"}, both[:1]},
	} {
		proc := t.TempDir()
		for path, content := range tt.files {
			path = filepath.Join(proc, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(tt.want, familiesOf(proc)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
