package node_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/test/testnode"
)

func TestNodeRunsPodAndLeavesNothing(t *testing.T) {
	requireHost(t)
	node, err := testnode.Start(t.Context(), testnode.Config{Name: "self", Logs: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			t.Error(node.Stop(t.Context()))
		}
	})
	for _, image := range []testnode.Image{testnode.Pause(), testnode.Web()} {
		if err := node.ImportImage(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}
	ids, err := node.RunStranger(t.Context(), testnode.Stranger{Name: "web-by-hand", Image: testnode.Web().Ref})
	if err != nil {
		t.Fatal(err)
	}
	status, err := node.CRI().Runtime.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: ids.Sandbox})
	if err != nil {
		t.Fatal(err)
	}
	network := status.GetStatus().GetNetwork()
	addresses := []string{network.GetIp()}
	for _, more := range network.GetAdditionalIps() {
		addresses = append(addresses, more.GetIp())
	}
	client := &http.Client{Transport: &http.Transport{DialContext: node.Dial, DisableKeepAlives: true}}
	for _, address := range addresses {
		var body string
		err := testnode.Eventually(t.Context(), 10*time.Second, address+" answers", func(ctx context.Context) error {
			body, err = get(ctx, client, "http://"+net.JoinHostPort(address, "8080"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("web-by-hand\n", body); diff != "" {
			t.Errorf("answer of %s (-want +got):\n%s", address, diff)
		}
	}
	if left, err := testnode.Leftovers(node.Name()); err != nil || len(left) < 5 {
		t.Errorf("a running node has processes, mounts, control groups and files; got %q, %v", left, err)
	}
	stopped = true
	if err := node.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := testnode.Leftovers(node.Name())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string(nil), left); diff != "" {
		t.Errorf("left over (-want +got):\n%s", diff)
	}
}

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	return bufio.NewReader(response.Body).ReadString('\n')
}

// crashVariable makes this test binary the program that starts a node and dies.
const crashVariable = "TESTNODE_CRASH"

// crash starts a node, says its name and waits to be killed.
func crash(logs string) {
	node, err := testnode.Start(context.Background(), testnode.Config{Name: "crash", Logs: logs})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("node", node.Name())
	select {}
}

func TestStartCleansWhatKilledProgramLeft(t *testing.T) {
	requireHost(t)
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), crashVariable+"="+t.TempDir())
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	name, ok := strings.CutPrefix(strings.TrimSpace(line), "node ")
	if err != nil || !ok {
		t.Fatalf("the program said %q, %v", line, err)
	}
	// Another node beside it leaves it alone while its program lives.
	cleaned := startAndStop(t)
	if left, err := testnode.Leftovers(name); err != nil || len(left) == 0 || cleaned[name] {
		t.Fatalf("left of the running node %s: %q, %v; cleaned %v", name, left, err, cleaned)
	}
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err == nil {
		t.Fatal(errors.New("the program ended by itself"))
	}
	if cleaned := startAndStop(t); !cleaned[name] {
		t.Errorf("the next start cleaned %v, not %s", cleaned, name)
	}
	if left, err := testnode.Leftovers(name); err != nil || len(left) != 0 {
		t.Errorf("left after the clean-up: %q, %v", left, err)
	}
}

// startAndStop runs a node for a moment and returns the names that it cleaned.
func startAndStop(t *testing.T) map[string]bool {
	t.Helper()
	cleaned := map[string]bool{}
	node, err := testnode.Start(t.Context(), testnode.Config{
		Name: "self", Logs: t.TempDir(),
		Progress: func(line string) {
			if _, name, ok := strings.Cut(line, "left: "); ok {
				cleaned[name] = true
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return cleaned
}
