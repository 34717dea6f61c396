package registryauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubelet/config/v1"
	credentialprovider "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/nodekit-go/nodekit/runtime/images/internal/flight"
)

// provider is one plugin with its configuration and its cache.
type provider struct {
	name       string
	apiVersion string
	patterns   []pattern
	// keep is how long answers are kept that say nothing about it.
	keep    time.Duration
	command command
	run     runner
	// tokens is nil unless the plugin is given service account tokens.
	tokens   *kubeletconfig.ServiceAccountTokenAttributes
	accounts Accounts

	flights flight.Group[cacheKey, response]
	cache   cache
}

// identity is the service account on whose behalf a plugin is asked.
type identity struct {
	account *ObjectRef
	request request
	// key is what answers are kept by, besides the image.
	key string
	// flightKey is what concurrent questions are told apart by.
	flightKey string
}

func (p *provider) matches(target pattern) bool {
	return slices.ContainsFunc(p.patterns, func(m pattern) bool { return m.matches(target) })
}

// provide returns the credentials that the plugin has for a repository, from the cache
// if it can. None is not an error.
func (p *provider) provide(ctx context.Context, repository string, pod Pod) (Auths, Source, error) {
	who, ok, err := p.identify(ctx, repository, pod)
	if err != nil || !ok {
		return nil, Source{}, err
	}
	source := Source{ServiceAccount: who.account}
	if auths, ok := p.cache.get(repository, who.key, time.Now()); ok {
		return auths, source, nil
	}
	answer, err := p.flights.Do(ctx, cacheKey{repository, who.flightKey}, func(ctx context.Context) (response, error) {
		return p.ask(ctx, who)
	})
	if err != nil {
		return nil, Source{}, err
	}
	return answer.auths, source, answer.problem
}

// ask runs the plugin and keeps its answer.
func (p *provider) ask(ctx context.Context, who identity) (response, error) {
	input, err := who.request.encode(p.apiVersion)
	if err != nil {
		return response{}, err
	}
	output, err := p.run(ctx, p.command, input)
	if err != nil {
		return response{}, err
	}
	answer, err := decodeResponse(output, p.apiVersion)
	if err != nil {
		return response{}, err
	}
	if err := p.checkEcho(answer.auths, who.request.token); err != nil {
		return response{}, err
	}
	keep := p.keep
	if answer.duration != nil {
		keep = *answer.duration
	}
	if keep > 0 {
		now := time.Now()
		p.cache.put(scopeKey(answer.scope, who.request.image, who.key), cached{answer.auths, now.Add(keep)}, now)
	}
	return answer, nil
}

// checkEcho refuses answers that outlive what they are made of: a token returned as a
// password is good for one pod only, so it must not be kept by service account.
func (p *provider) checkEcho(auths Auths, token string) error {
	if token == "" || p.tokens.CacheType == kubeletconfig.TokenServiceAccountTokenCacheType {
		return nil
	}
	for _, credential := range auths {
		if credential.Password == token {
			return errors.New("it returned the service account token as a password, which needs tokenAttributes.cacheType: Token")
		}
	}
	return nil
}

// identify finds out on whose behalf the plugin is asked; false means that it is not to
// be asked for this pod.
func (p *provider) identify(ctx context.Context, repository string, pod Pod) (identity, bool, error) {
	who := identity{request: request{image: repository}}
	if p.tokens == nil {
		return who, true, nil
	}
	if pod.ServiceAccount == "" {
		return who, !*p.tokens.RequireServiceAccount, nil
	}
	account, err := p.accounts.ServiceAccount(ctx, pod.Namespace, pod.ServiceAccount)
	if err != nil {
		return identity{}, false, fmt.Errorf("get service account %s/%s: %w", pod.Namespace, pod.ServiceAccount, err)
	}
	annotations, ok := p.annotations(account.Annotations)
	if !ok {
		return identity{}, false, nil
	}
	who.account = &ObjectRef{UID: account.UID, Namespace: pod.Namespace, Name: pod.ServiceAccount}
	who.request.annotations = annotations
	who.request.token, err = p.accounts.Token(ctx, TokenRequest{
		Namespace: pod.Namespace, ServiceAccount: pod.ServiceAccount, ServiceAccountUID: account.UID,
		PodName: pod.Name, PodUID: pod.UID, Audience: p.tokens.ServiceAccountTokenAudience,
	})
	if err == nil && who.request.token == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return identity{}, false, fmt.Errorf("get token of service account %s/%s: %w", pod.Namespace, pod.ServiceAccount, err)
	}
	who.setKeys(p.tokens.CacheType == kubeletconfig.TokenServiceAccountTokenCacheType)
	return who, true, nil
}

// annotations picks those of a service account that the plugin wants; false means that
// one it requires is missing, by which service accounts opt in.
func (p *provider) annotations(all map[string]string) (map[string]string, bool) {
	picked := make(map[string]string)
	for _, key := range p.tokens.RequiredServiceAccountAnnotationKeys {
		value, ok := all[key]
		if !ok {
			return nil, false
		}
		picked[key] = value
	}
	for _, key := range p.tokens.OptionalServiceAccountAnnotationKeys {
		if value, ok := all[key]; ok {
			picked[key] = value
		}
	}
	return picked, true
}

func (who *identity) setKeys(perToken bool) {
	parts := []string{who.account.Namespace, who.account.Name, string(who.account.UID)}
	for _, key := range slices.Sorted(maps.Keys(who.request.annotations)) {
		parts = append(parts, key, who.request.annotations[key])
	}
	sum := sha256.Sum256([]byte(who.request.token))
	withToken := append(slices.Clone(parts), hex.EncodeToString(sum[:]))
	who.flightKey = joinKey(withToken)
	who.key = who.flightKey
	if !perToken {
		who.key = joinKey(parts)
	}
}

// joinKey makes one string of parts such that other parts make another.
func joinKey(parts []string) string {
	var b strings.Builder
	for _, part := range parts {
		fmt.Fprintf(&b, "%d:%s", len(part), part)
	}
	return b.String()
}

// cacheKey is a scope, which is a repository, a registry or empty for all, and the key
// of an identity.
type cacheKey struct{ scope, identity string }

func scopeKey(scope credentialprovider.PluginCacheKeyType, repository, identity string) cacheKey {
	switch scope {
	case credentialprovider.ImagePluginCacheKeyType:
		return cacheKey{repository, identity}
	case credentialprovider.RegistryPluginCacheKeyType:
		return cacheKey{registryOf(repository), identity}
	default:
		return cacheKey{"", identity}
	}
}

func registryOf(repository string) string {
	registry, _, _ := strings.Cut(repository, "/")
	return registry
}

// cached is an answer that is good until a time.
type cached struct {
	auths Auths
	until time.Time
}

// cache keeps answers of one plugin.
type cache struct {
	// mu guards entries.
	mu      sync.Mutex
	entries map[cacheKey]cached
}

// get returns the answer with the narrowest scope.
func (c *cache) get(repository, identity string, now time.Time) (Auths, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, scope := range []string{repository, registryOf(repository), ""} {
		if e, ok := c.entries[cacheKey{scope, identity}]; ok && now.Before(e.until) {
			return e.auths, true
		}
	}
	return nil, false
}

// put keeps an answer and drops those whose time is over.
func (c *cache) put(key cacheKey, e cached, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.entries, func(_ cacheKey, old cached) bool { return !now.Before(old.until) })
	if c.entries == nil {
		c.entries = make(map[cacheKey]cached)
	}
	c.entries[key] = e
}

// Pod is what plugins may be told about the pod that needs an image.
type Pod struct {
	Namespace string
	Name      string
	UID       types.UID
	// ServiceAccount is the name of the pod's service account; static pods have none.
	ServiceAccount string
}
