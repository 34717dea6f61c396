package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/podworker/podstore"
)

// storing are the flags about what outlives a reboot.
type storing struct {
	podStore bool
	seal     string
}

// add defines the flags.
func (s *storing) add(f *pflag.FlagSet) {
	f.BoolVar(&s.podStore, "pod-store", false, "keep the API server's pods in --root-dir, and run them after a reboot while it does not answer")
	f.StringVar(&s.seal, "pod-store-seal", "", "`systemd-creds` keeps their Secrets, too, encrypted for this machine; default: no Secret is kept")
}

// store returns what is kept; nil: nothing.
func (s *storing) store() (*node.PodStore, error) {
	switch {
	case s.seal != "" && !s.podStore:
		return nil, errors.New("--pod-store-seal has no effect without --pod-store")
	case !s.podStore:
		return nil, nil //nolint:nilnil // nothing is kept
	case s.seal == "":
		return &node.PodStore{}, nil
	case s.seal != systemdCreds:
		return nil, fmt.Errorf("--pod-store-seal: %q, want %s or nothing", s.seal, systemdCreds)
	}
	path, err := exec.LookPath(systemdCreds)
	if err != nil {
		return nil, fmt.Errorf("--pod-store-seal: %w", err)
	}
	return &node.PodStore{Sealer: credentials{path}}, nil
}

const (
	systemdCreds = "systemd-creds"
	// sealTimeout is more than a TPM takes.
	sealTimeout = 30 * time.Second
)

// credentials seals with systemd-creds(1), whose key is in the machine's TPM if there is
// one, else in a file of root's.
type credentials struct{ path string }

var _ podstore.Sealer = credentials{}

// Seal implements podstore.Sealer.
func (c credentials) Seal(ctx context.Context, name string, plain []byte) ([]byte, error) {
	return c.run(ctx, plain, "encrypt", "--name="+name, "-", "-")
}

// Open implements podstore.Sealer.
func (c credentials) Open(ctx context.Context, name string, sealed []byte) ([]byte, error) {
	return c.run(ctx, sealed, "decrypt", "--name="+name, "-", "-")
}

func (c credentials) run(ctx context.Context, in []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, sealTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, args...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", systemdCreds, args[0], err, strings.TrimSpace(said.String()))
	}
	return out, nil
}
