package identity

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodekit-go/nodekit/runtime/server/certs"
)

func TestRequest(t *testing.T) {
	address := func(kind corev1.NodeAddressType, a string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: kind, Address: a}
	}
	tests := []struct {
		name      string
		addresses []corev1.NodeAddress
		names     []string
		ips       []string
	}{
		{"nothing is known yet", nil, nil, nil},
		{"only a name", []corev1.NodeAddress{address("Hostname", "node-a")}, nil, nil},
		{
			"all kinds",
			[]corev1.NodeAddress{
				address("InternalIP", "10.0.0.2"), address("InternalIP", "10.0.0.1"), address("ExternalIP", "fd00::1"), address("Hostname", "node-a"),
				address("InternalDNS", "node-a.internal"), address("ExternalDNS", "a.example.com"), address("InternalIP", "10.0.0.1"), address("Hostname", ""),
			},
			[]string{"a.example.com", "node-a", "node-a.internal"},
			[]string{"10.0.0.1", "10.0.0.2", "fd00::1"},
		},
		{"a name that is an address", []corev1.NodeAddress{address("Hostname", "10.0.0.9")}, nil, []string{"10.0.0.9"}},
		{"an address that is none", []corev1.NodeAddress{address("InternalIP", "nowhere"), address("InternalIP", "10.0.0.1")}, nil, []string{"10.0.0.1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := request("node-a", tt.addresses)
			if tt.ips == nil {
				if got != nil {
					t.Errorf("%+v is asked for", got)
				}
				return
			}
			var ips []string
			for _, ip := range got.IPAddresses {
				ips = append(ips, ip.String())
			}
			if diff := cmp.Diff(tt.names, got.DNSNames) + cmp.Diff(tt.ips, ips); diff != "" {
				t.Errorf("names and addresses (-want +got):\n%s", diff)
			}
			if got.Subject.String() != "CN=system:node:node-a,O=system:nodes" {
				t.Errorf("it is for %s", got.Subject)
			}
		})
	}
}

// A serving certificate is asked for once the node has an address, and again when it has
// another one.
func TestServing(t *testing.T) {
	a, dir := newAPI(t), t.TempDir()
	config, err := load(a.kubeconfig(t, dir, "kubeconfig", &clientcmdapi.AuthInfo{Token: bootstrapToken}))
	if err != nil {
		t.Fatal(err)
	}
	config.ContentType = plain
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var addresses atomic.Pointer[[]corev1.NodeAddress]
	addresses.Store(&[]corev1.NodeAddress{})
	s, err := NewServing(ServingConfig{
		Client: client, Node: "node-a", Dir: filepath.Join(dir, "pki"), Addresses: func() []corev1.NodeAddress { return *addresses.Load() },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		addresses.Store(&[]corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "node-a"}, {Type: corev1.NodeInternalIP, Address: ip}})
		eventually(t, "there is a certificate for "+ip, func() error {
			cert := s.Certificate()
			if cert == nil {
				return errors.New("there is none")
			}
			return errors.Join(cert.Leaf.VerifyHostname(ip), cert.Leaf.VerifyHostname("node-a"))
		})
	}
	requests, _ := a.requests()
	if len(requests) < 2 || requests[0].Spec.SignerName != "kubernetes.io/kubelet-serving" {
		t.Errorf("%d certificates were asked for, the first one of %s", len(requests), requests[0].Spec.SignerName)
	}
	if _, err := os.Readlink(filepath.Join(dir, "pki", "kubelet-server-current.pem")); err != nil {
		t.Error(err)
	}
}

// files writes a pair of files as SelfSigned has them, each nil: none.
func files(t *testing.T, dir string, cert, key []byte) {
	t.Helper()
	for name, data := range map[string][]byte{"kubelet.crt": cert, "kubelet.key": key} {
		if data == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSelfSigned(t *testing.T) {
	a := newAPI(t)
	made := func(ago time.Duration) (cert, key []byte) {
		cert, key, err := certs.SelfSigned(time.Now().Add(-ago), "node-a")
		if err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	fresh, freshKey := made(0)
	ending, endingKey := made(340 * 24 * time.Hour)
	signed, signedKey := a.issue(t, "node-a", -time.Hour, time.Minute)
	tests := []struct {
		name      string
		cert, key []byte
		anew      bool
	}{
		{"nothing", nil, nil, true},
		{"a pair", fresh, freshKey, false},
		{"a pair that ends within a month", ending, endingKey, true},
		{"a pair that somebody else signed", signed, signedKey, false},
		{"a key without a certificate", nil, freshKey, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pki")
			if tt.key != nil {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			files(t, dir, tt.cert, tt.key)
			certFile, keyFile, err := SelfSigned(dir, "node-a", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			pair, err := certs.OpenPair(certFile, keyFile, nil)
			if err != nil {
				t.Fatal(err)
			}
			data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate().Certificate[0]})
			if anew := string(data) != string(tt.cert); anew != tt.anew {
				t.Errorf("the pair was made anew: %t, want %t", anew, tt.anew)
			}
			if !tt.anew {
				return
			}
			if err := pair.Certificate().Leaf.VerifyHostname("node-a"); err != nil {
				t.Error(err)
			}
			info, err := os.Stat(keyFile)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the key has mode %v (%v), want 0600", info.Mode().Perm(), err)
			}
		})
	}
}

// A certificate whose key is lost is not written over.
func TestSelfSignedWithoutTheKey(t *testing.T) {
	dir := t.TempDir()
	cert, _, err := certs.SelfSigned(time.Now(), "node-a")
	if err != nil {
		t.Fatal(err)
	}
	files(t, dir, cert, nil)
	_, _, err = SelfSigned(dir, "node-a", slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "kubelet.key is missing") {
		t.Errorf("the error is %v, want that the key is missing", err)
	}
}

// Certificates that a stock kubelet signed with an authority that it forgot are of a
// kubelet's own making, too.
func TestOwnMaking(t *testing.T) {
	leaf := &x509.Certificate{IPAddresses: []net.IP{}}
	leaf.Subject.CommonName, leaf.Issuer.CommonName = "node-a@1700000000", "node-a-ca@1700000000"
	if !ownMaking(leaf, "node-a") {
		t.Error("a stock kubelet's certificate is taken for somebody else's")
	}
	leaf.Issuer.CommonName = "ca"
	if ownMaking(leaf, "node-a") {
		t.Error("somebody else's certificate is taken for a kubelet's own")
	}
}
