//go:build unix

package images_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/images/registryauth"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// plugins loads one plugin, a script of the shell.
func plugins(t *testing.T, body string) *registryauth.Providers {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plug": "#!/bin/sh\n" + body,
		"config.yaml": `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- {name: plug, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ["*.example"], defaultCacheDuration: 1m}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := registryauth.LoadProviders(filepath.Join(dir, "config.yaml"), dir, registryauth.ProvidersConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What a plugin gives is tried after the secrets of the pod, and counts for every pod.
func TestCredentialsOfPlugins(t *testing.T) {
	answer := `echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","auth":{"reg.example":{"username":"plug","password":"p"}}}'`
	w := newWorld(t, images.Config{Records: openStore(t, t.TempDir()), Credentials: images.Credentials{Providers: plugins(t, answer)}},
		runtimetest.Image{Name: private, Pull: &runtimetest.Pull{}})
	w.secret("mine", "me")
	w.server.Inject("PullImage", runtimetest.Fault{Times: 1, Err: os.ErrPermission})
	w.want(w.ensure(pod("a", "mine"), private, ""), "ok")
	if got := w.users(); got != "me plug" {
		t.Errorf("users tried are %q, want me plug", got)
	}
	w.want(w.ensure(pod("b"), private, corev1.PullNever), "ok")
}

func TestPluginThatFails(t *testing.T) {
	w := newWorld(t, images.Config{Credentials: images.Credentials{Providers: plugins(t, "echo no metadata >&2; exit 1")}},
		runtimetest.Image{Name: private, Pull: &runtimetest.Pull{}})
	w.server.Inject("PullImage", runtimetest.Fault{Times: 1, Err: os.ErrPermission})
	_, err := w.manager.Ensure(t.Context(), images.Request{Pod: pod("a"), Image: private})
	const want = `permission denied; not all credentials could be had: credential provider "plug" for reg.example/web: exit status 1: no metadata`
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error is %v, want %s", err, want)
	}
	w.want(w.ensure(pod("b"), private, ""), "ok")
}
