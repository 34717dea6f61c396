package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// Virtual IPs of the tests' Services.
const (
	webIPv4   = "10.96.0.10"
	webIPv6   = "fd00:96::10"
	emptyIPv4 = "10.96.0.11"
)

// startKubeProxy starts kube-proxy beside the kubelet. At the test's end it is
// ended and its rules are removed by its own clean-up.
func (a *agent) startKubeProxy() *testnode.Process {
	a.t.Helper()
	binary, err := a.kubeProxyBinary()
	if err != nil {
		a.t.Fatal(err)
	}
	process, err := a.StartKubeProxy(a.t.Context(), binary)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		a.removeAll(a.Services())
		if !process.Exited() {
			if err := process.Terminate(10 * time.Second); err != nil {
				a.t.Error(err)
			}
		}
	})
	return process
}

// newService returns a Service with the ports that the image web answers at.
func newService(name, app string, addresses ...string) *corev1.Service {
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.ServiceSpec{
			ClusterIP: addresses[0], ClusterIPs: addresses, Selector: map[string]string{"app": app},
			Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)},
				{Name: "name", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(8080)},
			},
		},
	}
	for _, address := range addresses {
		family := corev1.IPv4Protocol
		if netip.MustParseAddr(address).Is6() {
			family = corev1.IPv6Protocol
		}
		service.Spec.IPFamilies = append(service.Spec.IPFamilies, family)
	}
	return service
}

// getter sends requests to a URL of scheme http or udp, each with a connection of
// its own, and returns who answered, a name per line. That one of two pods gets
// none of its requests happens once in 2^29 tests.
type getter func(ctx context.Context, url string) (string, error)

const requests = 30

// fromNode sends requests from the node's network namespace.
func (a *agent) fromNode(ctx context.Context, url string) (string, error) {
	var answers strings.Builder
	for range requests {
		answer, err := a.getOnce(ctx, url)
		if err != nil {
			return "", err
		}
		answers.WriteString(answer)
	}
	return answers.String(), nil
}

func (a *agent) getOnce(ctx context.Context, url string) (string, error) {
	address, datagram := strings.CutPrefix(url, "udp://")
	if !datagram {
		body, err := a.Get(ctx, url)
		return string(body), err
	}
	conn, err := a.Dial(ctx, "udp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte("name?")); err != nil {
		return "", err
	}
	buffer := make([]byte, 1500)
	n, err := conn.Read(buffer)
	return string(buffer[:n]), err
}

// fromPod sends requests from inside a pod, in its container "main" of image life.
func (a *agent) fromPod(pod string) getter {
	id := a.containerID(pod, "main")
	return func(ctx context.Context, url string) (string, error) {
		return a.exec(ctx, id, "/life", "get", url, strconv.Itoa(requests))
	}
}

// waitAnswers waits until exactly these pods answer at the URL.
func (a *agent) waitAnswers(get getter, url string, pods ...string) {
	a.t.Helper()
	var want []string
	for _, pod := range pods {
		want = append(want, podName(pod))
	}
	a.eventually(fmt.Sprintf("%s is answered by %v", url, want), func(ctx context.Context) error {
		answers, err := get(ctx, url)
		if err != nil {
			return err
		}
		have := strings.Fields(answers)
		slices.Sort(have)
		if have = slices.Compact(have); !slices.Equal(have, want) {
			return fmt.Errorf("it is answered by %v", have)
		}
		return nil
	})
}

func TestServiceReachesPods(t *testing.T) {
	a := startAgent(t)
	a.startKubeProxy()
	a.runPod(newWebPod("web-1", "web"))
	a.runPod(newWebPod("web-2", "web"))
	a.runPod(newPod("client"))
	a.manifest(a.Services(), "web.yaml", newService("web", "web", webIPv4, webIPv6))
	a.manifest(a.Services(), "empty.yaml", newService("empty", "nobody", emptyIPv4))
	for _, pod := range []string{"web-1", "web-2", "client"} {
		a.waitReady(pod)
	}
	urls := []string{
		"http://" + webIPv4, "http://[" + webIPv6 + "]",
		"udp://" + webIPv4 + ":53", "udp://[" + webIPv6 + "]:53",
	}
	for from, get := range map[string]getter{"the node": a.fromNode, "a pod": a.fromPod("client")} {
		for _, url := range urls {
			t.Log(url, "from", from)
			a.waitAnswers(get, url, "web-1", "web-2")
		}
	}

	began := time.Now()
	if _, err := a.fromNode(t.Context(), "http://"+emptyIPv4); !errors.Is(err, unix.ECONNREFUSED) || time.Since(began) > time.Second {
		t.Errorf("a Service without endpoints: %v after %s, want the connection refused at once", err, time.Since(began))
	}

	a.removePod("web-1")
	for _, url := range urls {
		a.waitAnswers(a.fromNode, url, "web-2")
	}
	a.removePod("web-2")
	a.eventually("a Service without endpoints refuses", func(ctx context.Context) error {
		_, err := a.fromNode(ctx, "http://"+webIPv4)
		if errors.Is(err, unix.ECONNREFUSED) {
			return nil
		}
		return fmt.Errorf("the answer is %w", err)
	})
}

func TestPodReachesItselfThroughItsService(t *testing.T) {
	a := startAgent(t)
	a.startKubeProxy()
	pod := newWebPod("both", "both")
	pod.Spec.Containers = append(pod.Spec.Containers, newPod("").Spec.Containers...)
	pod.Spec.Containers[0].Name = "web"
	a.runPod(pod)
	a.manifest(a.Services(), "both.yaml", newService("both", "both", webIPv4, webIPv6))
	a.waitReady("both")
	get := a.fromPod("both")
	a.waitAnswers(get, "http://"+webIPv4, "both")
	a.waitAnswers(get, "http://["+webIPv6+"]", "both")
}

func TestKubeProxyWithoutKubeletKeepsWhatItFinds(t *testing.T) {
	a := startAgent(t)
	process := a.startKubeProxy()
	a.runPod(newWebPod("web", "web"))
	a.manifest(a.Services(), "web.yaml", newService("web", "web", webIPv4))
	a.waitAnswers(a.fromNode, "http://"+webIPv4, "web")

	if err := errors.Join(a.kubelet.Kill(), process.Kill()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(process.Log, 0); err != nil {
		t.Fatal(err)
	}
	binary, err := a.kubeProxyBinary()
	if err != nil {
		t.Fatal(err)
	}
	if process, err = a.LaunchKubeProxy(binary); err != nil {
		t.Fatal(err)
	}
	// From when it waits for the kubelet it could do harm.
	a.eventually("kube-proxy waits for the kubelet's pods", func(context.Context) error {
		log, err := os.ReadFile(process.Log)
		if err == nil && !strings.Contains(string(log), "waiting for feeds") {
			err = fmt.Errorf("its log is %q", log)
		}
		return err
	})
	for range 20 {
		if _, err := a.fromNode(t.Context(), "http://"+webIPv4); err != nil {
			t.Fatalf("without a kubelet: %v", err)
		}
	}
	a.start()
	a.waitReady("web")
	a.runPod(newWebPod("more", "web"))
	a.waitAnswers(a.fromNode, "http://"+webIPv4, "more", "web")
	if err := process.Terminate(10 * time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestRulesOutliveKubeProxyAndGoWithCleanup(t *testing.T) {
	a := startAgent(t)
	process := a.startKubeProxy()
	a.runPod(newWebPod("web", "web"))
	a.manifest(a.Services(), "web.yaml", newService("web", "web", webIPv4))
	a.waitAnswers(a.fromNode, "http://"+webIPv4, "web")

	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	a.waitAnswers(a.fromNode, "http://"+webIPv4, "web")

	process = a.startKubeProxy()
	a.waitAnswers(a.fromNode, "http://"+webIPv4, "web")
	if err := process.Terminate(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	binary, err := a.kubeProxyBinary()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := a.Command(t.Context(), binary, "--cleanup").CombinedOutput(); err != nil {
		t.Fatalf("kube-proxy --cleanup: %v\n%s", err, out)
	}
	tables, err := a.Command(t.Context(), "nft", "list", "tables").CombinedOutput()
	if err != nil || strings.Contains(string(tables), "nodekit") {
		t.Errorf("tables after the clean-up: %q, %v", tables, err)
	}
}
