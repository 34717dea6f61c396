package csitest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

const stages = csiapi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME

// start starts a driver in a new directory, and returns a client of it.
func start(t *testing.T, cfg csitest.Config) (*csitest.Driver, csiapi.NodeClient) {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") //nolint:usetesting // a path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg.Dir, cfg.Mounter = dir, &csitest.Table{}
	if cfg.Registry != "" {
		cfg.Registry = filepath.Join(dir, cfg.Registry)
	}
	d, err := csitest.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	conn, err := dial(d.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return d, csiapi.NewNodeClient(conn)
}

// TestMisuse refuses what CSI forbids, and notes it.
func TestMisuse(t *testing.T) {
	d, node := start(t, csitest.Config{Capabilities: []csiapi.NodeServiceCapability_RPC_Type{stages}})
	staging, target := filepath.Join(d.Volume("x"), "..", "staging"), filepath.Join(filepath.Dir(d.Endpoint()), "target")
	publish := &csiapi.NodePublishVolumeRequest{VolumeId: "a", StagingTargetPath: staging, TargetPath: target}
	if _, err := node.NodePublishVolume(t.Context(), publish); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("publish what is not staged: %v", err)
	}
	for range 2 { // calls may be repeated
		if _, err := node.NodeStageVolume(t.Context(), &csiapi.NodeStageVolumeRequest{VolumeId: "a", StagingTargetPath: staging}); err != nil {
			t.Fatal(err)
		}
		if _, err := node.NodePublishVolume(t.Context(), publish); err != nil {
			t.Fatal(err)
		}
	}
	unstage := &csiapi.NodeUnstageVolumeRequest{VolumeId: "a", StagingTargetPath: staging}
	if _, err := node.NodeUnstageVolume(t.Context(), unstage); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("unstage what is published: %v", err)
	}
	for range 2 {
		if _, err := node.NodeUnpublishVolume(t.Context(), &csiapi.NodeUnpublishVolumeRequest{VolumeId: "a", TargetPath: target}); err != nil {
			t.Fatal(err)
		}
		if _, err := node.NodeUnstageVolume(t.Context(), unstage); err != nil {
			t.Fatal(err)
		}
	}
	wrong := d.Misuse()
	if len(wrong) != 2 || !strings.Contains(wrong[0], "is not staged") || !strings.Contains(wrong[1], "while it is published") {
		t.Errorf("misuse is %q", wrong)
	}
}

// TestTwoCallsAtOnce refuses the second one.
func TestTwoCallsAtOnce(t *testing.T) {
	d, node := start(t, csitest.Config{})
	entered := make(chan struct{})
	d.Inject("NodeUnpublishVolume", func(ctx context.Context, _ func() error) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	request := &csiapi.NodeUnpublishVolumeRequest{VolumeId: "a", TargetPath: "/none"}
	go func() {
		_, err := node.NodeUnpublishVolume(ctx, request)
		done <- err
	}()
	<-entered
	if _, err := node.NodeUnpublishVolume(t.Context(), request); status.Code(err) != codes.Aborted {
		t.Errorf("a second call at once: %v", err)
	}
	cancel()
	if err := <-done; status.Code(err) != codes.Canceled {
		t.Errorf("the first call: %v", err)
	}
	if len(d.Misuse()) != 1 {
		t.Errorf("misuse is %q", d.Misuse())
	}
}

func TestFaults(t *testing.T) {
	d, node := start(t, csitest.Config{})
	target := filepath.Join(filepath.Dir(d.Endpoint()), "target")
	publish := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := node.NodePublishVolume(ctx, &csiapi.NodePublishVolumeRequest{VolumeId: "a", TargetPath: target})
		return err
	}
	tests := []struct {
		name  string
		fault csitest.Fault
		code  codes.Code
		done  bool
	}{
		{"lie", csitest.Lie, codes.OK, false},
		{"fail", csitest.Fail(codes.NotFound, "no"), codes.NotFound, false},
		{"slow", csitest.Slow(time.Millisecond), codes.OK, true},
		{"fail after", csitest.FailAfter(codes.Internal, "no"), codes.Internal, true},
	}
	for _, tt := range tests {
		d.Inject("NodePublishVolume", tt.fault, 1)
		if err := publish(); status.Code(err) != tt.code {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.code)
		}
		if _, err := os.Stat(target); (err == nil) != tt.done {
			t.Errorf("%s: the target exists: %v, want %v", tt.name, err == nil, tt.done)
		}
	}
	d.Inject("NodePublishVolume", csitest.Fail(codes.Internal, "always"), 0)
	for range 3 {
		if publish() == nil {
			t.Error("a fault for always has ended")
		}
	}
	d.Inject("NodePublishVolume", nil, 0)
	if err := publish(); err != nil {
		t.Error(err)
	}
}

func TestRegistration(t *testing.T) {
	d, _ := start(t, csitest.Config{Name: "disk.example", Registry: "reg"})
	socket := filepath.Join(filepath.Dir(d.Endpoint()), "reg", "disk.example-reg.sock")
	conn, err := dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := registerapi.NewRegistrationClient(conn)
	info, err := client.GetInfo(t.Context(), &registerapi.InfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{info.GetType(), info.GetName(), info.GetEndpoint()}
	if diff := cmp.Diff([]string{registerapi.CSIPlugin, "disk.example", d.Endpoint()}, got); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	if _, err := client.NotifyRegistrationStatus(t.Context(), &registerapi.RegistrationStatus{PluginRegistered: true}); err != nil {
		t.Fatal(err)
	}
	if ok, _ := d.Registered(); !ok {
		t.Error("the driver does not know that it is registered")
	}
	d.Kill()
	if _, err := os.Stat(socket); err != nil {
		t.Errorf("a driver that is killed leaves its socket: %v", err)
	}
	d.Stop()
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a driver that is stopped removes its socket: %v", err)
	}
	if _, err := csitest.Start(csitest.Config{Dir: "relative"}); err == nil {
		t.Error("Start with a relative directory: no error")
	}
}
