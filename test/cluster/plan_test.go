package cluster

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestAddressesOfNodes(t *testing.T) {
	pods, hub := netip.MustParsePrefix(PodRange), netip.MustParsePrefix(hubAddress+"/24")
	seen := map[netip.Addr]bool{netip.MustParseAddr(hubAddress): true}
	for index := range maxNodes {
		address, podRange := nodeAddress(index), podRange(index)
		if seen[address] || seen[podRange.Addr()] {
			t.Errorf("node %d: %s and %s are taken", index, address, podRange)
		}
		seen[address], seen[podRange.Addr()] = true, true
		if !hub.Contains(address) {
			t.Errorf("node %d: %s is not in %s", index, address, hub)
		}
		if !pods.Contains(podRange.Addr()) {
			t.Errorf("node %d: %s is not in %s", index, podRange, pods)
		}
	}
}

func TestParseChoices(t *testing.T) {
	for _, want := range []Source{Stock, Ours, None, "/usr/local/bin/kubelet"} {
		if got, err := ParseSource(string(want)); got != want || err != nil {
			t.Errorf("ParseSource(%q) = %v, %v", want, got, err)
		}
	}
	for _, want := range []Runtime{Containerd, Containerd2, "/run/crio/crio.sock"} {
		if got, err := ParseRuntime(string(want)); got != want || err != nil {
			t.Errorf("ParseRuntime(%q) = %v, %v", want, got, err)
		}
	}
	if _, err := ParseSource("theirs"); err == nil || !strings.Contains(err.Error(), `"theirs"`) {
		t.Errorf("ParseSource of nonsense: %v", err)
	}
	if _, err := ParseRuntime("docker"); err == nil || !strings.Contains(err.Error(), `"docker"`) {
		t.Errorf("ParseRuntime of nonsense: %v", err)
	}
}

// TestManifestsAreWhatTheySay decodes strictly: kubectl creates them without validation.
func TestManifestsAreWhatTheySay(t *testing.T) {
	text, err := renderManifests(accessManifest, dnsManifest)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]any{
		"ServiceAccount": &corev1.ServiceAccount{}, "ClusterRole": &rbacv1.ClusterRole{},
		"ClusterRoleBinding": &rbacv1.ClusterRoleBinding{}, "ConfigMap": &corev1.ConfigMap{},
		"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{},
	}
	var got []string
	for document := range strings.SplitSeq(text, "---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		got = append(got, kind.Kind)
		if err := yaml.UnmarshalStrict([]byte(document), kinds[kind.Kind]); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
	}
	want := []string{
		"ClusterRoleBinding", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "Service",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if address := kinds["Service"].(*corev1.Service).Spec.ClusterIP; address != DNSAddress {
		t.Errorf("the Service has address %s, want %s", address, DNSAddress)
	}
}
