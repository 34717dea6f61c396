package node_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/logs"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// A container writes as fast as it can while its log is rotated again and again. A
// follower gets each line once, and so does who reads all files at the end.
func TestLogOfABusyContainerIsFollowedAcrossRotations(t *testing.T) {
	checkFollowedLog(t, useNode(t).Node)
}

func checkFollowedLog(t *testing.T, node *testnode.Node) {
	t.Helper()
	const lines, rotations = 20_000, 15
	ids, err := node.RunStranger(t.Context(), testnode.Stranger{
		Name: "writer", Image: testnode.Life().Ref, Args: []string{"-count", fmt.Sprint(lines)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeStranger(t, node.CRI(), ids) })
	status, err := node.CRI().ContainerStatus(t.Context(), ids.Container)
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(node.PodLogs(), status.GetLogPath())
	if err != nil {
		t.Fatal(err)
	}
	file := logs.File{Root: node.PodLogs(), Path: path}

	var followed strings.Builder
	done := make(chan error, 1)
	go func() {
		done <- logs.Copy(t.Context(), &followed, file, logs.Options{Follow: true, Running: func(ctx context.Context) (bool, error) {
			status, err := node.CRI().ContainerStatus(ctx, ids.Container)
			return status.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING, err
		}})
	}()
	reopen := func(ctx context.Context) error {
		_, err := node.CRI().Runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: ids.Container})
		return err
	}
	rotated := 0
	for range rotations {
		time.Sleep(100 * time.Millisecond)
		ok, err := logs.Rotate(t.Context(), file, logs.Policy{MaxSize: 1, MaxFiles: 2 * rotations}, reopen)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			rotated++
		}
	}
	if rotated < rotations/2 {
		t.Errorf("the log was rotated %d times, want more", rotated)
	}
	err = testnode.Eventually(t.Context(), time.Minute, "the container has written all", func(ctx context.Context) error {
		one := int64(1)
		var last strings.Builder
		if err := logs.Copy(ctx, &last, file, logs.Options{Tail: &one}); err != nil {
			return err
		}
		if want := fmt.Sprintf("line %d\n", lines); last.String() != want {
			return fmt.Errorf("last line is %q", last.String())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = node.CRI().Runtime.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: ids.Container})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	checkLines(t, "the follower saw", followed.String(), lines)
	var all strings.Builder
	if err := logs.Copy(t.Context(), &all, file, logs.Options{}); err != nil {
		t.Fatal(err)
	}
	checkLines(t, "the files hold", all.String(), lines)
}

// checkLines wants the lines 1 to n, each once and in order.
func checkLines(t *testing.T, what, text string, n int) {
	t.Helper()
	next := 1
	for line := range strings.Lines(text) {
		number, found := strings.CutPrefix(strings.TrimSpace(line), "line ")
		if !found {
			continue
		}
		if number != fmt.Sprint(next) {
			t.Fatalf("%s line %s where line %d belongs", what, number, next)
		}
		next++
	}
	if next != n+1 {
		t.Errorf("%s %d lines, want %d", what, next-1, n)
	}
}

func removeStranger(t *testing.T, cri *testnode.CRI, ids testnode.StrangerIDs) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if _, err := cri.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: ids.Sandbox}); err != nil {
		t.Error(err)
	}
	if _, err := cri.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: ids.Sandbox}); err != nil {
		t.Error(err)
	}
}
