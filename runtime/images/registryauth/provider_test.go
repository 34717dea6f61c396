package registryauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubelet/config/v1"
	credentialprovider "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// plugin is a plugin in this process.
type plugin struct {
	// takes is how long a run takes; fails makes it fail.
	takes time.Duration
	fails error
	// answer makes the output; the default has a user per run, kept by scope.
	answer func(credentialprovider.CredentialProviderRequest) string
	scope  credentialprovider.PluginCacheKeyType
	// keep is cacheDuration.
	keep *time.Duration

	mu   sync.Mutex
	runs []credentialprovider.CredentialProviderRequest
}

func (p *plugin) run(ctx context.Context, _ command, input []byte) ([]byte, error) {
	var r credentialprovider.CredentialProviderRequest
	if err := json.Unmarshal(input, &r); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.runs = append(p.runs, r)
	n := len(p.runs)
	p.mu.Unlock()
	select {
	case <-time.After(p.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.fails != nil {
		return nil, p.fails
	}
	if p.answer != nil {
		return []byte(p.answer(r)), nil
	}
	keep := ""
	if p.keep != nil {
		keep = fmt.Sprintf(`"cacheDuration":%q,`, p.keep)
	}
	return fmt.Appendf(nil, `{"kind":"CredentialProviderResponse","apiVersion":%q,"cacheKeyType":%q,%s"auth":{"*.example":{"username":"run %d","password":"p"}}}`,
		r.APIVersion, p.scope, keep, n), nil
}

// accounts is a Kubernetes API with one service account per name.
type accounts struct {
	annotations map[string]string
	err         error
	mu          sync.Mutex
	asked       []TokenRequest
}

func (a *accounts) ServiceAccount(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Annotations: a.annotations}}, nil
}

func (a *accounts) Token(_ context.Context, r TokenRequest) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, r)
	return "token of " + r.PodName, a.err
}

func config(edit ...func(*kubeletconfig.CredentialProvider)) *kubeletconfig.CredentialProvider {
	c := &kubeletconfig.CredentialProvider{
		Name: "plug", APIVersion: pluginV1, MatchImages: []string{"*.example"}, DefaultCacheDuration: &metav1.Duration{Duration: time.Hour},
	}
	for _, e := range edit {
		e(c)
	}
	return c
}

func withTokens(cacheType kubeletconfig.ServiceAccountTokenCacheType, required bool, keys ...string) func(*kubeletconfig.CredentialProvider) {
	return func(c *kubeletconfig.CredentialProvider) {
		c.TokenAttributes = &kubeletconfig.ServiceAccountTokenAttributes{
			ServiceAccountTokenAudience: "reg", CacheType: cacheType, RequireServiceAccount: &required,
			RequiredServiceAccountAnnotationKeys: keys, OptionalServiceAccountAnnotationKeys: []string{"optional"},
		}
	}
}

func providers(t *testing.T, c *kubeletconfig.CredentialProvider, p *plugin, cfg ProvidersConfig) *Providers {
	t.Helper()
	if errs := checkProvider(c); errs != nil {
		t.Fatal(errs)
	}
	one, err := newProvider(c, "/bin/plug", p.run, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &Providers{providers: []*provider{one}}
}

// user looks up a repository and returns the user, or the error.
func user(t *testing.T, p *Providers, repository string, pod Pod) string {
	t.Helper()
	got, err := p.Lookup(t.Context(), repository, pod)
	if err != nil {
		return "error: " + err.Error()
	}
	return strings.Join(users(got), " ")
}

func TestAnswersAreKept(t *testing.T) {
	hour, zero := time.Hour, time.Duration(0)
	for _, c := range []struct {
		name  string
		scope credentialprovider.PluginCacheKeyType
		keep  *time.Duration
		// want is the users for three repositories, and for the first one after 30 and
		// 90 minutes.
		want []string
	}{
		{"by image", credentialprovider.ImagePluginCacheKeyType, &hour, []string{"run 1", "run 2", "run 3", "run 1", "run 4"}},
		{"by registry", credentialprovider.RegistryPluginCacheKeyType, &hour, []string{"run 1", "run 1", "run 2", "run 1", "run 3"}},
		{"for all", credentialprovider.GlobalPluginCacheKeyType, &hour, []string{"run 1", "run 1", "run 1", "run 1", "run 2"}},
		{"default", credentialprovider.GlobalPluginCacheKeyType, nil, []string{"run 1", "run 1", "run 1", "run 1", "run 2"}},
		{"not at all", credentialprovider.GlobalPluginCacheKeyType, &zero, []string{"run 1", "run 2", "run 3", "run 4", "run 5"}},
		{"unknown", "Node", &hour, []string{
			"error: credential provider \"plug\" for reg.example/a: cacheKeyType of its answer is none of Image, Registry and Global",
			"error: credential provider \"plug\" for reg.example/b: cacheKeyType of its answer is none of Image, Registry and Global",
			"error: credential provider \"plug\" for new.example/a: cacheKeyType of its answer is none of Image, Registry and Global",
			"error: credential provider \"plug\" for reg.example/a: cacheKeyType of its answer is none of Image, Registry and Global",
			"error: credential provider \"plug\" for reg.example/a: cacheKeyType of its answer is none of Image, Registry and Global",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := providers(t, config(), &plugin{scope: c.scope, keep: c.keep}, ProvidersConfig{})
				var got []string
				for _, repository := range []string{"reg.example/a", "reg.example/b", "new.example/a"} {
					got = append(got, user(t, p, repository, Pod{}))
				}
				for range 2 {
					<-time.After(30*time.Minute + time.Second)
					got = append(got, user(t, p, "reg.example/a", Pod{}))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("users (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestPluginIsAskedForItsImagesOnly(t *testing.T) {
	plug := &plugin{scope: credentialprovider.GlobalPluginCacheKeyType}
	p := providers(t, config(), plug, ProvidersConfig{})
	if got := user(t, p, "reg.other/web", Pod{}); got != "" || len(plug.runs) != 0 {
		t.Errorf("user is %q after %d runs, want none", got, len(plug.runs))
	}
}

func TestQuestionsAtTheSameTimeAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plug := &plugin{scope: credentialprovider.ImagePluginCacheKeyType, takes: 10 * time.Second}
		p := providers(t, config(), plug, ProvidersConfig{})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if got := user(t, p, "reg.example/a", Pod{}); got != "run 1" {
					t.Errorf("user is %q, want that of the one run", got)
				}
			})
		}
		wg.Wait()
	})
}

func TestServiceAccountTokens(t *testing.T) {
	const perAccount, perToken = kubeletconfig.ServiceAccountServiceAccountTokenCacheType, kubeletconfig.TokenServiceAccountTokenCacheType
	pods := []Pod{
		{Namespace: "ns", Name: "a", UID: "1", ServiceAccount: "robot"},
		{Namespace: "ns", Name: "b", UID: "2", ServiceAccount: "robot"},
		{Namespace: "ns", Name: "c", UID: "3", ServiceAccount: "other"},
		{Namespace: "ns", Name: "static", UID: "4"},
	}
	for _, c := range []struct {
		name        string
		config      func(*kubeletconfig.CredentialProvider)
		annotations map[string]string
		tokenErr    error
		want        []string
	}{
		{name: "by service account", config: withTokens(perAccount, true), want: []string{"run 1", "run 1", "run 2", ""}},
		{name: "by token", config: withTokens(perToken, true), want: []string{"run 1", "run 2", "run 3", ""}},
		{name: "not required", config: withTokens(perAccount, false), want: []string{"run 1", "run 1", "run 2", "run 3"}},
		{name: "annotation is missing", config: withTokens(perAccount, true, "opt-in"), want: []string{"", "", "", ""}},
		{name: "annotation is there", config: withTokens(perAccount, true, "opt-in"), annotations: map[string]string{"opt-in": "y"}, want: []string{"run 1", "run 1", "run 2", ""}},
		{name: "no token", config: withTokens(perAccount, true), tokenErr: errors.New("forbidden"), want: []string{
			`error: credential provider "plug" for reg.example/a: get token of service account ns/robot: forbidden`,
			`error: credential provider "plug" for reg.example/a: get token of service account ns/robot: forbidden`,
			`error: credential provider "plug" for reg.example/a: get token of service account ns/other: forbidden`, "",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := providers(t, config(c.config), &plugin{scope: credentialprovider.RegistryPluginCacheKeyType},
				ProvidersConfig{Accounts: &accounts{annotations: c.annotations, err: c.tokenErr}})
			var got []string
			for _, pod := range pods {
				got = append(got, user(t, p, "reg.example/a", pod))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("users (-want +got):\n%s", diff)
			}
		})
	}
}

// mute has service accounts and no tokens.
type mute struct{ accounts }

func (*mute) Token(context.Context, TokenRequest) (string, error) { return "", nil }

func TestEmptyToken(t *testing.T) {
	p := providers(t, config(withTokens("Token", true)), &plugin{scope: credentialprovider.ImagePluginCacheKeyType}, ProvidersConfig{Accounts: &mute{}})
	const want = `error: credential provider "plug" for reg.example/a: get token of service account ns/robot: it is empty`
	if got := user(t, p, "reg.example/a", Pod{Namespace: "ns", Name: "web", ServiceAccount: "robot"}); got != want {
		t.Errorf("user is %q, want %q", got, want)
	}
}

func TestWhatAPluginIsTold(t *testing.T) {
	plug := &plugin{scope: credentialprovider.ImagePluginCacheKeyType}
	api := &accounts{annotations: map[string]string{"opt-in": "y", "optional": "z", "private": "x"}}
	p := providers(t, config(withTokens(kubeletconfig.TokenServiceAccountTokenCacheType, true, "opt-in")), plug, ProvidersConfig{Accounts: api})
	got, err := p.Lookup(t.Context(), "reg.example/a", Pod{Namespace: "ns", Name: "web", UID: "1", ServiceAccount: "robot"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&ObjectRef{UID: "uid-robot", Namespace: "ns", Name: "robot"}, got[0].Source.ServiceAccount); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
	want := credentialprovider.CredentialProviderRequest{
		TypeMeta: metav1.TypeMeta{Kind: "CredentialProviderRequest", APIVersion: pluginV1},
		Image:    "reg.example/a", ServiceAccountToken: "token of web", ServiceAccountAnnotations: map[string]string{"opt-in": "y", "optional": "z"},
	}
	if diff := cmp.Diff([]credentialprovider.CredentialProviderRequest{want}, plug.runs); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	wantToken := TokenRequest{Namespace: "ns", ServiceAccount: "robot", ServiceAccountUID: "uid-robot", PodName: "web", PodUID: "1", Audience: "reg"}
	if diff := cmp.Diff([]TokenRequest{wantToken}, api.asked); diff != "" {
		t.Errorf("token requests (-want +got):\n%s", diff)
	}
}

// A token that comes back as the password would be given to other pods of the service
// account, unless answers are kept by token.
func TestEchoedToken(t *testing.T) {
	for _, c := range []struct {
		cacheType kubeletconfig.ServiceAccountTokenCacheType
		want      string
	}{
		{kubeletconfig.TokenServiceAccountTokenCacheType, "u"},
		{kubeletconfig.ServiceAccountServiceAccountTokenCacheType, `error: credential provider "plug" for reg.example/a: it returned the service account token as a password, which needs tokenAttributes.cacheType: Token`},
	} {
		t.Run(string(c.cacheType), func(t *testing.T) {
			plug := &plugin{answer: func(r credentialprovider.CredentialProviderRequest) string {
				return fmt.Sprintf(`{"kind":"CredentialProviderResponse","apiVersion":%q,"cacheKeyType":"Image","auth":{"reg.example":{"username":"u","password":%q}}}`, r.APIVersion, r.ServiceAccountToken)
			}}
			p := providers(t, config(withTokens(c.cacheType, true)), plug, ProvidersConfig{Accounts: &accounts{}})
			if got := user(t, p, "reg.example/a", Pod{Namespace: "ns", Name: "web", ServiceAccount: "robot"}); got != c.want {
				t.Errorf("user is %q, want %q", got, c.want)
			}
		})
	}
}

// The credentials of several plugins come together; one that fails takes nothing away,
// and one that is slow costs no more than itself.
func TestSeveralPlugins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := providers(t, config(), &plugin{scope: "Image", takes: time.Minute}, ProvidersConfig{})
		bad := providers(t, config(), &plugin{fails: errors.New("boom"), takes: time.Minute}, ProvidersConfig{})
		p := &Providers{providers: append(bad.providers, good.providers...)}
		began := time.Now()
		got, err := p.Lookup(t.Context(), "reg.example/a", Pod{})
		wantError(t, err, "boom")
		if took := time.Since(began); len(got) != 1 || took != time.Minute {
			t.Errorf("%d credentials after %v, want 1 after a minute", len(got), took)
		}
	})
}

func TestTokensNeedTheAPI(t *testing.T) {
	_, err := newProvider(config(withTokens("Token", true)), "/bin/plug", run, ProvidersConfig{})
	wantError(t, err, "ProvidersConfig.Accounts")
}

func TestDecodeResponse(t *testing.T) {
	head := `{"kind":"CredentialProviderResponse","apiVersion":"` + pluginV1 + `",`
	for _, c := range []struct {
		name    string
		data    string
		want    Auths
		wantErr []string
	}{
		{name: "no credentials", data: head + `"cacheKeyType":"Image"}`, want: Auths{}},
		{name: "credentials", data: head + `"cacheKeyType":"Image","auth":{"reg.example":{"username":"u","password":"p"}}}` + "\n", want: Auths{"reg.example": {Username: "u", Password: "p"}}},
		{name: "nothing", wantErr: []string{"CredentialProviderResponse"}},
		{name: "text", data: "s3cret", wantErr: []string{"CredentialProviderResponse"}},
		{name: "two answers", data: head + `"cacheKeyType":"Image"}` + head + `"cacheKeyType":"Image"}`, wantErr: []string{"CredentialProviderResponse"}},
		{name: "unknown field", data: head + `"cacheKeyType":"Image","token":"s3cret"}`, wantErr: []string{"CredentialProviderResponse"}},
		{name: "wrong case", data: head + `"cachekeytype":"Image"}`, wantErr: []string{"CredentialProviderResponse"}},
		{name: "another kind", data: `{"kind":"Pod","apiVersion":"` + pluginV1 + `","cacheKeyType":"Image"}`, wantErr: []string{"CredentialProviderResponse"}},
		{name: "another version", data: strings.Replace(head, "/v1", "/v1beta1", 1) + `"cacheKeyType":"Image"}`, wantErr: []string{"API version"}},
		{name: "no cacheKeyType", data: head + `"auth":null}`, wantErr: []string{"cacheKeyType"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decodeResponse([]byte(c.data), pluginV1)
			wantError(t, err, c.wantErr...)
			if diff := cmp.Diff(c.want, got.auths, cmp.Comparer(sameCredential)); diff != "" {
				t.Errorf("credentials (-want +got):\n%s", diff)
			}
		})
	}
}

// No output of a plugin makes the agent panic, and what is accepted can be used.
func FuzzDecodeResponse(f *testing.F) {
	head := `{"kind":"CredentialProviderResponse","apiVersion":"` + pluginV1 + `",`
	for _, seed := range []string{
		head + `"cacheKeyType":"Image","cacheDuration":"1h","auth":{"reg.example":{"username":"u","password":"p"}}}`,
		head + `"cacheKeyType":"Global","auth":{"[":{}}}`, head + `"cacheDuration":-1}`, `{}`, `null`, "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decodeResponse(data, pluginV1)
		if err != nil {
			return
		}
		keyring := &Keyring{}
		keyring.Add(got.auths, Source{})
		if len(keyring.entries) != len(got.auths) {
			t.Errorf("%d of %d entries can be used", len(keyring.entries), len(got.auths))
		}
	})
}
