package registryauth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// The API versions of plugins and of their configuration that are known. Older versions
// have the same form.
const (
	pluginGroup = "credentialprovider.kubelet.k8s.io/"
	pluginV1    = pluginGroup + "v1"
	configGroup = "kubelet.config.k8s.io/"
	configKind  = "CredentialProviderConfig"
)

func knownVersion(apiVersion, group string) bool {
	version, ok := strings.CutPrefix(apiVersion, group)
	return ok && slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, version)
}

// loadProviderConfig reads a file, or all .json, .yaml and .yml files of a directory in
// the order of their names.
func loadProviderConfig(path string) ([]kubeletconfig.CredentialProvider, error) {
	files, err := configFiles(path)
	if err != nil {
		return nil, err
	}
	var providers []kubeletconfig.CredentialProvider
	var errs []error
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found, err := parseProviderConfig(data)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
		providers = append(providers, found...)
	}
	if err := errors.Join(append(errs, checkProviders(providers))...); err != nil {
		return nil, err
	}
	return providers, nil
}

func configFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no .json, .yaml or .yml file: %w", path, fs.ErrNotExist)
	}
	return files, nil
}

func parseProviderConfig(data []byte) ([]kubeletconfig.CredentialProvider, error) {
	docs, err := strictyaml.Parse(data)
	if err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, fmt.Errorf("it holds %d documents, want one %s", len(docs), configKind)
	}
	var config kubeletconfig.CredentialProviderConfig
	if issues := docs[0].Check(&config); len(issues) > 0 {
		var errs []error
		for _, i := range issues {
			errs = append(errs, fmt.Errorf("line %d: %s: %s", i.Line, i.Field, i.Message))
		}
		return nil, errors.Join(errs...)
	}
	if err := docs[0].Decode(&config); err != nil {
		return nil, err
	}
	if config.Kind != configKind || !knownVersion(config.APIVersion, configGroup) {
		return nil, fmt.Errorf("it is kind %q of %q, want %s of %sv1", config.Kind, config.APIVersion, configKind, configGroup)
	}
	return config.Providers, nil
}

func checkProviders(providers []kubeletconfig.CredentialProvider) error {
	if len(providers) == 0 {
		return errors.New("providers is empty, want one or more")
	}
	var errs []error
	seen := make(map[string]bool)
	for i := range providers {
		p := &providers[i]
		if seen[p.Name] {
			errs = append(errs, fmt.Errorf("provider %q: the name is used twice", p.Name))
		}
		seen[p.Name] = true
		for _, err := range checkProvider(p) {
			errs = append(errs, fmt.Errorf("provider %q: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

func checkProvider(p *kubeletconfig.CredentialProvider) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/ \x00") {
		bad("name has to be the name of a file in the directory of plugins")
	}
	if !knownVersion(p.APIVersion, pluginGroup) {
		bad("apiVersion is %q, want %s", p.APIVersion, pluginV1)
	}
	if len(p.MatchImages) == 0 {
		bad("matchImages is empty, want one or more patterns")
	}
	for _, m := range p.MatchImages {
		if _, err := parsePattern(m); err != nil {
			bad("matchImages: %q: %w", m, err)
		}
	}
	switch {
	case p.DefaultCacheDuration == nil:
		bad("defaultCacheDuration is missing")
	case p.DefaultCacheDuration.Duration < 0:
		bad("defaultCacheDuration is %s, want 0 or more", p.DefaultCacheDuration.Duration)
	}
	for _, e := range p.Env {
		if e.Name == "" || strings.ContainsAny(e.Name, "=\x00") {
			bad("env: %q is no name of a variable", e.Name)
		}
	}
	if p.TokenAttributes != nil {
		errs = append(errs, checkTokenAttributes(p)...)
	}
	return errs
}

func checkTokenAttributes(p *kubeletconfig.CredentialProvider) []error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("tokenAttributes"+format, args...))
	}
	t := p.TokenAttributes
	if p.APIVersion != pluginV1 {
		bad(" needs apiVersion %s", pluginV1)
	}
	if t.ServiceAccountTokenAudience == "" {
		bad(".serviceAccountTokenAudience is missing")
	}
	switch t.CacheType {
	case kubeletconfig.TokenServiceAccountTokenCacheType, kubeletconfig.ServiceAccountServiceAccountTokenCacheType:
	default:
		bad(".cacheType is %q, want %s or %s", t.CacheType,
			kubeletconfig.TokenServiceAccountTokenCacheType, kubeletconfig.ServiceAccountServiceAccountTokenCacheType)
	}
	switch {
	case t.RequireServiceAccount == nil:
		bad(".requireServiceAccount is missing")
	case !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0:
		bad(".requiredServiceAccountAnnotationKeys needs requireServiceAccount: true")
	}
	keys := make(map[string]bool)
	for _, key := range slices.Concat(t.RequiredServiceAccountAnnotationKeys, t.OptionalServiceAccountAnnotationKeys) {
		if key == "" || keys[key] {
			bad(": annotation key %q is empty or listed twice", key)
		}
		keys[key] = true
	}
	return errs
}

// findPlugin returns the path of a plugin that can be run.
func findPlugin(dir, name string) (string, error) {
	path, err := exec.LookPath(filepath.Join(dir, name))
	if err != nil {
		return "", fmt.Errorf("provider %q: %w", name, err)
	}
	return filepath.Abs(path)
}
