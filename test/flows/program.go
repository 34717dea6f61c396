package flows

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// program is a kube-proxy on the node of a World.
type program struct {
	world *proxiertest.World
	api   *apiServer
	// sets counts the calls of Set.
	sets int
	// output is what the program said.
	output *bytes.Buffer
}

// start starts a kube-proxy in a mode. It ends with the test.
func start(tb testing.TB, w *proxiertest.World, binary, mode string) *program {
	tb.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: proxiertest.NodeName},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: proxiertest.OurNode.Addr(proxier.IPv4).String()},
			{Type: corev1.NodeInternalIP, Address: proxiertest.OurNode.Addr(proxier.IPv6).String()},
		}},
	}
	p := &program{world: w, api: newAPIServer(node), output: new(bytes.Buffer)}
	server := &http.Server{Handler: p.api, ReadHeaderTimeout: time.Minute}
	var l net.Listener
	err := w.Do(proxiertest.OurNode, func() error {
		var err error
		l, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	tb.Cleanup(func() { _ = server.Close(); <-ended })
	config := writeConfig(tb, l.Addr().String(), mode)
	cmd := exec.Command(binary, "--config="+config, "--hostname-override="+proxiertest.NodeName, "-v=2")
	cmd.Stdout, cmd.Stderr = p.output, p.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := w.Do(proxiertest.OurNode, cmd.Start); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if tb.Failed() {
			tb.Logf("%s said:\n%s", filepath.Base(binary), p.output)
		}
	})
	return p
}

func writeConfig(tb testing.TB, server, mode string) string {
	tb.Helper()
	type object = map[string]any
	dir := tb.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	var ranges []string
	for _, r := range proxiertest.PodRanges() {
		ranges = append(ranges, r.String())
	}
	for file, content := range map[string]object{
		kubeconfig: {
			"apiVersion": "v1", "kind": "Config", "current-context": "c",
			"clusters": []object{{"name": "c", "cluster": object{"server": "http://" + server}}},
			"contexts": []object{{"name": "c", "context": object{"cluster": "c"}}},
		},
		filepath.Join(dir, "config.yaml"): {
			"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
			"clientConnection": object{"kubeconfig": kubeconfig, "contentType": "application/json"},
			"mode":             mode, "clusterCIDR": strings.Join(ranges, ","),
			// The table of connections has one size for the whole machine.
			"conntrack": object{"maxPerCore": 0, "min": 0},
			"iptables":  object{"minSyncPeriod": "10ms"}, "nftables": object{"minSyncPeriod": "10ms"},
			"healthzBindAddress": "127.0.0.1:10256", "metricsBindAddress": "127.0.0.1:10249",
		},
	} {
		data, err := json.Marshal(content)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	return filepath.Join(dir, "config.yaml")
}

// Set implements proxiertest.Proxy. A Service comes along that is answered as soon as
// the proxy has programmed what came before it.
func (p *program) Set(ctx context.Context, o proxiertest.Objects) error {
	p.sets++
	service, slices, at := marker(p.sets)
	o.Services = append(o.Services, service)
	o.Slices = append(o.Slices, slices...)
	p.api.set(o)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, address := range at {
		for {
			err := p.world.Do(proxiertest.OurNode, func() error {
				c, err := (&net.Dialer{Timeout: 200 * time.Millisecond}).DialContext(ctx, "tcp", address.String())
				if err == nil {
					c.Close()
				}
				return err
			})
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("the objects are not in force after 2 minutes: %w", err)
			}
		}
	}
	return nil
}

// marker is a Service of both families with one endpoint.
func marker(n int) (*corev1.Service, []*discoveryv1.EndpointSlice, []netip.AddrPort) {
	name := fmt.Sprintf("marker-%d", n)
	addrs := []netip.Addr{
		netip.AddrFrom4([4]byte{10, 96, 255, byte(n)}), netip.MustParseAddr(fmt.Sprintf("fd00:96::ff:%x", n)),
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "zz", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: addrs[0].String(), ClusterIPs: []string{addrs[0].String(), addrs[1].String()},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			Ports:      []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	var slices []*discoveryv1.EndpointSlice
	var at []netip.AddrPort
	for i, family := range []proxier.Family{proxier.IPv4, proxier.IPv6} {
		slices = append(slices, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "zz", Name: name + "-" + family.String(),
				Labels: map[string]string{discoveryv1.LabelServiceName: name},
			},
			AddressType: discoveryv1.AddressType(family.String()),
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
			Endpoints: []discoveryv1.Endpoint{{
				Addresses:  []string{proxiertest.Far1.Addr(family).String()},
				Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			}},
		})
		at = append(at, netip.AddrPortFrom(addrs[i], 80))
	}
	return service, slices, at
}
