package registryauth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubelet/config/v1"
)

// defaultPluginTimeout is what the kubelet gives a plugin.
const defaultPluginTimeout = time.Minute

// ProvidersConfig adjusts Providers. The zero value is ready for use unless a plugin
// wants service account tokens.
type ProvidersConfig struct {
	// Timeout is how long a plugin may run before it is killed; zero means a minute.
	Timeout time.Duration
	// Accounts makes the tokens for plugins with tokenAttributes; nil makes such plugins
	// an error of LoadProviders.
	Accounts Accounts
	// Ran is called after each run of a plugin, with its name, how long it took, and its
	// error or nil. It must not block; nil means that nobody listens.
	Ran func(plugin string, took time.Duration, err error)
}

// Accounts is what plugins with tokenAttributes need of the Kubernetes API. It is called
// by many goroutines.
type Accounts interface {
	// ServiceAccount returns a service account.
	ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	// Token returns a token that is bound to a pod.
	Token(ctx context.Context, r TokenRequest) (string, error)
}

// TokenRequest says which token is wanted: one of a service account for an audience,
// bound to a pod.
type TokenRequest struct {
	Namespace         string
	ServiceAccount    string
	ServiceAccountUID types.UID
	PodName           string
	PodUID            types.UID
	Audience          string
}

// Providers runs credential-provider plugins. It is safe for use by many goroutines; nil
// has no plugins.
type Providers struct {
	providers []*provider
}

// LoadProviders reads the configuration of plugins, which is one file or a directory of
// .json, .yaml and .yml files, and finds the plugins in dir. Anything wrong with it is
// an error that names the line or the plugin. No plugin is run yet.
func LoadProviders(path, dir string, cfg ProvidersConfig) (*Providers, error) {
	configs, err := loadProviderConfig(path)
	if err != nil {
		return nil, fmt.Errorf("load credential-provider configuration: %w", err)
	}
	providers := &Providers{}
	var errs []error
	for i := range configs {
		executable, err := findPlugin(dir, configs[i].Name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p, err := newProvider(&configs[i], executable, run, cfg)
		errs = append(errs, err)
		providers.providers = append(providers.providers, p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("load credential-provider plugins: %w", err)
	}
	return providers, nil
}

// newProvider takes a configuration that was checked.
func newProvider(c *kubeletconfig.CredentialProvider, executable string, run runner, cfg ProvidersConfig) (*provider, error) {
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("ProvidersConfig.Timeout is %s, want 0 (a minute) or more", cfg.Timeout)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultPluginTimeout
	}
	if c.TokenAttributes != nil && cfg.Accounts == nil {
		return nil, fmt.Errorf("provider %q: tokenAttributes needs ProvidersConfig.Accounts, which is nil", c.Name)
	}
	p := &provider{
		name:       c.Name,
		apiVersion: c.APIVersion,
		keep:       c.DefaultCacheDuration.Duration,
		command:    command{path: executable, args: c.Args, timeout: cfg.Timeout},
		run:        observed(c.Name, run, cfg.Ran),
		tokens:     c.TokenAttributes,
		accounts:   cfg.Accounts,
	}
	for _, e := range c.Env {
		p.command.env = append(p.command.env, e.Name+"="+e.Value)
	}
	for _, m := range c.MatchImages {
		match, err := parsePattern(m)
		if err != nil {
			return nil, fmt.Errorf("provider %q: matchImages: %q: %w", c.Name, m, err)
		}
		p.patterns = append(p.patterns, match)
	}
	return p, nil
}

// observed tells a listener about the runs of a plugin.
func observed(name string, run runner, ran func(string, time.Duration, error)) runner {
	if ran == nil {
		return run
	}
	return func(ctx context.Context, c command, input []byte) ([]byte, error) {
		began := time.Now()
		output, err := run(ctx, c, input)
		ran(name, time.Since(began), err)
		return output, err
	}
}

// Lookup asks the plugins that are for a repository, such as "docker.io/library/web",
// all at the same time, and returns their credentials in the order in which to try them.
// Answers are kept as long as the plugin says. The error is about plugins that failed;
// what the others gave is returned with it.
func (p *Providers) Lookup(ctx context.Context, repository string, pod Pod) ([]Credential, error) {
	if p == nil {
		return nil, nil
	}
	target, err := parseRepository(repository)
	if err != nil {
		return nil, err
	}
	type answer struct {
		auths  Auths
		source Source
		err    error
	}
	answers := make([]answer, len(p.providers))
	var wg sync.WaitGroup
	for i, one := range p.providers {
		if !one.matches(target) {
			continue
		}
		wg.Go(func() {
			a := &answers[i]
			if a.auths, a.source, a.err = one.provide(ctx, repository, pod); a.err != nil {
				a.err = fmt.Errorf("credential provider %q for %s: %w", one.name, repository, a.err)
			}
		})
	}
	wg.Wait()
	keyring := &Keyring{}
	var errs []error
	for i := range answers {
		keyring.Add(answers[i].auths, answers[i].source)
		errs = append(errs, answers[i].err)
	}
	return keyring.Lookup(repository), errors.Join(errs...)
}
