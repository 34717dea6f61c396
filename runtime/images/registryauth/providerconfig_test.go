package registryauth

import (
	"os"
	"path/filepath"
	"testing"
)

const configHead = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

func provider1(name string) string {
	return "- name: " + name + "\n  apiVersion: " + pluginV1 + "\n  matchImages: [reg.example]\n  defaultCacheDuration: 1m\n"
}

func TestLoadProviders(t *testing.T) {
	tokens := "  tokenAttributes:\n    serviceAccountTokenAudience: reg\n"
	for _, c := range []struct {
		name string
		// files are written to a directory, which is loaded as a whole.
		files   map[string]string
		want    int
		wantErr []string
	}{
		{name: "one file", files: map[string]string{"a.yaml": configHead + provider1("one")}, want: 1},
		{name: "several files", files: map[string]string{"a.yaml": configHead + provider1("one"), "b.yml": configHead + provider1("two"), "README": "x"}, want: 2},
		{name: "JSON", files: map[string]string{"a.json": `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[{"name":"one","apiVersion":"` + pluginV1 + `","matchImages":["a"],"defaultCacheDuration":"0s"}]}`}, want: 1},
		{name: "older versions", files: map[string]string{"a.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\nproviders:\n- name: one\n  apiVersion: credentialprovider.kubelet.k8s.io/v1beta1\n  matchImages: [a]\n  defaultCacheDuration: 1m\n"}, want: 1},
		{name: "no file", files: map[string]string{"README": "x"}, wantErr: []string{"no .json, .yaml or .yml file"}},
		{name: "twice the same", files: map[string]string{"a.yaml": configHead + provider1("one"), "b.yml": configHead + provider1("one")}, wantErr: []string{`"one": the name is used twice`}},
		{name: "no plugins", files: map[string]string{"a.yaml": configHead + " []\n"}, wantErr: []string{"providers is empty"}},
		{name: "another kind", files: map[string]string{"a.yaml": "apiVersion: v1\nkind: Pod\n"}, wantErr: []string{"a.yaml"}},
		{name: "not YAML", files: map[string]string{"a.yaml": "{"}, wantErr: []string{"a.yaml"}},
		{name: "unknown field", files: map[string]string{"a.yaml": configHead + provider1("one") + "  matchImage: [x]\n"}, wantErr: []string{"line 8", "matchImage"}},
		{name: "no plugin of that name", files: map[string]string{"a.yaml": configHead + provider1("absent")}, wantErr: []string{`"absent"`}},
		{name: "a plugin elsewhere", files: map[string]string{"a.yaml": configHead + provider1("../one")}, wantErr: []string{"name of a file"}},
		{name: "many slips", files: map[string]string{"a.yaml": configHead + "- name: one\n  apiVersion: v2\n  env: [{name: 'A=B', value: x}]\n- name: two\n  apiVersion: " + pluginV1 + "\n  matchImages: ['[']\n  defaultCacheDuration: -1s\n"}, wantErr: []string{
			`"one": apiVersion is "v2"`, `"one": matchImages is empty`, `"one": defaultCacheDuration is missing`, `"one": env`, `"two": matchImages`, `"two": defaultCacheDuration is -1s`,
		}},
		{name: "slips in tokenAttributes", files: map[string]string{"a.yaml": configHead + provider1("one") + "  tokenAttributes: {requiredServiceAccountAnnotationKeys: [a, a]}\n"}, wantErr: []string{
			"serviceAccountTokenAudience", "cacheType", "requireServiceAccount is missing", `"a" is empty or listed twice`,
		}},
		{name: "annotations without service account", files: map[string]string{"a.yaml": configHead + provider1("one") + tokens + "    cacheType: Token\n    requireServiceAccount: false\n    requiredServiceAccountAnnotationKeys: [a]\n"}, wantErr: []string{"needs requireServiceAccount: true"}},
		{name: "tokens without the API", files: map[string]string{"a.yaml": configHead + provider1("one") + tokens + "    cacheType: Token\n    requireServiceAccount: true\n"}, wantErr: []string{"ProvidersConfig.Accounts"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, bin := t.TempDir(), t.TempDir()
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"one", "two"} {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			p, err := LoadProviders(dir, bin, ProvidersConfig{})
			wantError(t, err, c.wantErr...)
			if err == nil && len(p.providers) != c.want {
				t.Errorf("%d plugins, want %d", len(p.providers), c.want)
			}
		})
	}
}

func TestLoadProvidersFromNowhere(t *testing.T) {
	_, err := LoadProviders(filepath.Join(t.TempDir(), "none"), "", ProvidersConfig{})
	wantError(t, err, "no such file")
}
