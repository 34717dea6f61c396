//go:build unix

package registryauth

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// script writes a plugin for the shell and loads it.
func script(t *testing.T, body string, cfg ProvidersConfig) *Providers {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plug"), []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.yaml")
	text := `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: plug
  apiVersion: ` + pluginV1 + `
  matchImages: ["*.example"]
  defaultCacheDuration: 1m
  args: [--for, "a b"]
  env: [{name: GREETING, value: hello}]
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := LoadProviders(path, dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const answerOfScript = `printf '{"kind":"CredentialProviderResponse","apiVersion":"` + pluginV1 + `","cacheKeyType":"Image","auth":{"reg.example":{"username":"%s","password":"p"}}}' "$1-$2-$GREETING-$image"
`

func TestPluginRuns(t *testing.T) {
	t.Setenv("GREETING", "overridden")
	var ran []string
	p := script(t, `image=$(sed 's/.*"image":"\([^"]*\)".*/\1/')`+"\n"+answerOfScript, ProvidersConfig{
		Ran: func(name string, _ time.Duration, err error) { ran = append(ran, name) },
	})
	if got, want := user(t, p, "reg.example/web", Pod{}), "--for-a b-hello-reg.example/web"; got != want {
		t.Errorf("user is %q, want %q", got, want)
	}
	if len(ran) != 1 || ran[0] != "plug" {
		t.Errorf("Ran was called for %q, want plug once", ran)
	}
}

func TestPluginFails(t *testing.T) {
	for _, c := range []struct {
		name string
		body string
		want []string
	}{
		{"exit code", "echo no network >&2; exit 3", []string{"exit status 3: no network"}},
		{"garbage", "echo s3cret", []string{"did not print one CredentialProviderResponse"}},
		{"no end of output", "yes s3cret | head -c 3000000", []string{"printed more than 1048576 bytes"}},
		{"no end of complaints", "yes bad | head -c 3000000 >&2; exit 1", []string{"exit status 1: bad"}},
		{"does not read its input", "exec 0<&-; exit 4", []string{"exit status 4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := script(t, c.body, ProvidersConfig{}).Lookup(t.Context(), "reg.example/web", Pod{})
			wantError(t, err, append(c.want, `credential provider "plug" for reg.example/web`)...)
			if len(err.Error()) > 2*maxComplaint {
				t.Errorf("error has %d characters", len(err.Error()))
			}
		})
	}
}

// A plugin that hangs is killed with all it started, at its time or when nobody waits
// for it any more.
func TestPluginIsKilled(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		cancel  bool
		want    error
	}{
		{"time is over", 300 * time.Millisecond, false, context.DeadlineExceeded},
		{"nobody waits", time.Hour, true, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			pids := filepath.Join(t.TempDir(), "pids")
			p := script(t, "sleep 1000 & echo $$ $! >"+pids+".tmp; mv "+pids+".tmp "+pids+"; wait", ProvidersConfig{Timeout: c.timeout})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error, 1)
			go func() {
				_, err := p.Lookup(ctx, "reg.example/web", Pod{})
				result <- err
			}()
			text := awaitFile(t, pids)
			if c.cancel {
				cancel()
			}
			if err := <-result; !errors.Is(err, c.want) {
				t.Errorf("error is %v, want %v", err, c.want)
			}
			for field := range strings.FieldsSeq(text) {
				pid, err := strconv.Atoi(field)
				if err != nil {
					t.Fatal(err)
				}
				awaitEnd(t, pid)
			}
		})
	}
}

func awaitFile(t *testing.T, path string) string {
	t.Helper()
	for range 1000 {
		if data, err := os.ReadFile(path); err == nil {
			return string(data)
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatalf("%s did not appear in 10s", path)
	return ""
}

// awaitEnd waits until a process is gone, or dead and not yet reaped by its new parent.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	for range 500 {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Errorf("process %d is still there", pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Log(err)
	}
}
