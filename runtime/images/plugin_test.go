//go:build unix

package images_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/images/registryauth"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

const answerOfPlugin = `echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","auth":{"reg.example":{"username":"plug","password":"p"}}}'`

// plugins loads one plugin, a script of the shell.
func plugins(t *testing.T, body, more string, cfg registryauth.ProvidersConfig) *registryauth.Providers {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plug": "#!/bin/sh\n" + body,
		"config.yaml": `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- {name: plug, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ["*.example"], defaultCacheDuration: 1m` + more + `}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := registryauth.LoadProviders(filepath.Join(dir, "config.yaml"), dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What a plugin gives is tried after the secrets of the pod, and counts for every pod.
func TestCredentialsOfPlugins(t *testing.T) {
	w := newWorld(t, images.Config{Records: openStore(t, t.TempDir()), Credentials: images.Credentials{Providers: plugins(t, answerOfPlugin, "", registryauth.ProvidersConfig{})}},
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
	w := newWorld(t, images.Config{Credentials: images.Credentials{Providers: plugins(t, "echo no metadata >&2; exit 1", "", registryauth.ProvidersConfig{})}},
		runtimetest.Image{Name: private, Pull: &runtimetest.Pull{}})
	w.server.Inject("PullImage", runtimetest.Fault{Times: 1, Err: os.ErrPermission})
	_, err := w.manager.Ensure(t.Context(), images.Request{Pod: pod("a"), Image: private})
	const want = `permission denied; not all credentials could be had: credential provider "plug" for reg.example/web: exit status 1: no metadata`
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error is %v, want %s", err, want)
	}
	w.want(w.ensure(pod("b"), private, ""), "ok")
}

// accounts has every service account.
type accounts struct{}

func (accounts) ServiceAccount(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}}, nil
}

func (accounts) Token(_ context.Context, r registryauth.TokenRequest) (string, error) {
	return "token for " + r.Audience, nil
}

// What the token of a service account brought is for pods of that service account.
func TestCredentialsOfServiceAccounts(t *testing.T) {
	const tokens = ", tokenAttributes: {serviceAccountTokenAudience: reg, cacheType: ServiceAccount, requireServiceAccount: true}"
	w := newWorld(t, images.Config{
		Records:     openStore(t, t.TempDir()),
		Credentials: images.Credentials{Providers: plugins(t, answerOfPlugin, tokens, registryauth.ProvidersConfig{Accounts: accounts{}})},
	}, runtimetest.Image{Name: private, Pull: &runtimetest.Pull{}})
	as := func(name, account string) *corev1.Pod {
		p := pod(name)
		p.Spec.ServiceAccountName = account
		return p
	}
	w.want(w.ensure(as("a", "robot"), private, ""), "ok")
	w.want(w.ensure(as("b", "robot"), private, corev1.PullNever), "ok")
	w.want(w.ensure(as("c", "other"), private, corev1.PullNever), "ErrImageNeverPull after 0s")
	w.want(w.ensure(as("static", ""), private, corev1.PullNever), "ErrImageNeverPull after 0s")
	w.wantPulls(1)
}
