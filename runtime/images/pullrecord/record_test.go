package pullrecord

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sec(name, hash string) Secret {
	return Secret{UID: "uid-" + name, Namespace: "ns", Name: name, Hash: hash}
}

func acc(name string) ServiceAccount {
	return ServiceAccount{UID: "uid-" + name, Namespace: "ns", Name: name}
}

func TestGrants(t *testing.T) {
	for _, c := range []struct {
		name      string
		known     Access
		pod       Access
		want      bool
		wantLearn Access
	}{
		{name: "nothing known, nothing had"},
		{name: "nothing known", pod: Access{Secrets: []Secret{sec("a", "1")}}},
		{name: "everybody", known: Access{Everybody: true}, want: true},
		{name: "the same", known: Access{Secrets: []Secret{sec("a", "1")}}, pod: Access{Secrets: []Secret{sec("x", "9"), sec("a", "1")}}, want: true},
		{name: "nothing had", known: Access{Secrets: []Secret{sec("a", "1")}}},
		{name: "others", known: Access{Secrets: []Secret{sec("a", "1")}}, pod: Access{Secrets: []Secret{sec("b", "2")}}},
		{name: "same credential in another secret", known: Access{Secrets: []Secret{sec("a", "1")}}, pod: Access{Secrets: []Secret{sec("b", "1")}}, want: true, wantLearn: Access{Secrets: []Secret{sec("b", "1")}}},
		{name: "another credential in the same secret", known: Access{Secrets: []Secret{sec("a", "1")}}, pod: Access{Secrets: []Secret{sec("a", "2")}}, want: true, wantLearn: Access{Secrets: []Secret{sec("a", "2")}}},
		{name: "no hash is no match", known: Access{Secrets: []Secret{sec("a", "")}}, pod: Access{Secrets: []Secret{sec("b", "")}}},
		{name: "same name made anew", known: Access{Secrets: []Secret{sec("a", "1")}}, pod: Access{Secrets: []Secret{{UID: "new", Namespace: "ns", Name: "a", Hash: "2"}}}},
		{name: "service account", known: Access{ServiceAccounts: []ServiceAccount{acc("r")}}, pod: Access{ServiceAccounts: []ServiceAccount{acc("r")}}, want: true},
		{name: "another service account", known: Access{ServiceAccounts: []ServiceAccount{acc("r")}}, pod: Access{ServiceAccounts: []ServiceAccount{acc("s")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &record{Credentials: map[string]Access{"web": c.known, "other": {Everybody: true}}}
			got, learn := r.grants("web", c.pod)
			if got != c.want {
				t.Errorf("grants is %v, want %v", got, c.want)
			}
			if diff := cmp.Diff(c.wantLearn, learn); diff != "" {
				t.Errorf("learn (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	for _, c := range []struct {
		name string
		old  Access
		more Access
		want Access
		same bool
	}{
		{name: "nothing", same: true},
		{name: "first", more: Access{Secrets: []Secret{sec("a", "1")}}, want: Access{Secrets: []Secret{sec("a", "1")}}},
		{name: "sorted", old: Access{Secrets: []Secret{sec("b", "1")}}, more: Access{Secrets: []Secret{sec("a", "1")}}, want: Access{Secrets: []Secret{sec("a", "1"), sec("b", "1")}}},
		{name: "changed", old: Access{Secrets: []Secret{sec("a", "1")}}, more: Access{Secrets: []Secret{sec("a", "2")}}, want: Access{Secrets: []Secret{sec("a", "2")}}},
		{name: "same name elsewhere", old: Access{Secrets: []Secret{{UID: "1", Namespace: "a", Name: "s", Hash: "x"}}}, more: Access{Secrets: []Secret{{UID: "1", Namespace: "b", Name: "s", Hash: "x"}}}, want: Access{Secrets: []Secret{{UID: "1", Namespace: "a", Name: "s", Hash: "x"}, {UID: "1", Namespace: "b", Name: "s", Hash: "x"}}}},
		{name: "same name made anew", old: Access{Secrets: []Secret{{UID: "1", Namespace: "a", Name: "s", Hash: "x"}}}, more: Access{Secrets: []Secret{{UID: "2", Namespace: "a", Name: "s", Hash: "x"}}}, want: Access{Secrets: []Secret{{UID: "1", Namespace: "a", Name: "s", Hash: "x"}, {UID: "2", Namespace: "a", Name: "s", Hash: "x"}}}},
		{name: "known", old: Access{Secrets: []Secret{sec("a", "1")}}, more: Access{Secrets: []Secret{sec("a", "1")}}, want: Access{Secrets: []Secret{sec("a", "1")}}, same: true},
		{name: "everybody", old: Access{Secrets: []Secret{sec("a", "1")}}, more: Access{Everybody: true}, want: Access{Everybody: true}},
		{name: "everybody stays", old: Access{Everybody: true}, more: Access{Secrets: []Secret{sec("a", "1")}}, want: Access{Everybody: true}, same: true},
		{name: "service account", old: Access{Secrets: []Secret{sec("a", "1")}}, more: Access{ServiceAccounts: []ServiceAccount{acc("r")}}, want: Access{Secrets: []Secret{sec("a", "1")}, ServiceAccounts: []ServiceAccount{acc("r")}}},
		{name: "known service account", old: Access{ServiceAccounts: []ServiceAccount{acc("r")}}, more: Access{ServiceAccounts: []ServiceAccount{acc("r")}}, want: Access{ServiceAccounts: []ServiceAccount{acc("r")}}, same: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &record{Credentials: map[string]Access{"web": c.old}}
			if changed := r.add("web", c.more); changed == c.same {
				t.Errorf("add reports %v", changed)
			}
			if diff := cmp.Diff(c.want, r.Credentials["web"]); diff != "" {
				t.Errorf("access (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVerifier(t *testing.T) {
	list := []string{"reg.example/team/*", "web"}
	for _, c := range []struct {
		policy Policy
		list   []string
		// want is for the image web that was there before, the image web that was pulled,
		// and the pulled images reg.example/team/a and reg.example/teams/a.
		want [4]bool
	}{
		{"", nil, [4]bool{false, true, true, true}},
		{NeverVerifyPreloadedImages, nil, [4]bool{false, true, true, true}},
		{NeverVerify, nil, [4]bool{}},
		{AlwaysVerify, nil, [4]bool{true, true, true, true}},
		{NeverVerifyAllowlistedImages, list, [4]bool{false, false, false, true}},
		{NeverVerifyAllowlistedImages, nil, [4]bool{true, true, true, true}},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			v, err := NewVerifier(c.policy, c.list)
			if err != nil {
				t.Fatal(err)
			}
			got := [4]bool{v.required("web", false), v.required("web", true), v.required("reg.example/team/a", true), v.required("reg.example/teams/a", true)}
			if got != c.want {
				t.Errorf("required is %v, want %v", got, c.want)
			}
		})
	}
}

func TestBadVerifiers(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy Policy
		list   []string
	}{
		{"policy", "Sometimes", nil},
		{"list without its policy", AlwaysVerify, []string{"web"}},
		{"tag", NeverVerifyAllowlistedImages, []string{"web:1"}},
		{"no path", NeverVerifyAllowlistedImages, []string{"/*"}},
		{"everything", NeverVerifyAllowlistedImages, []string{"*"}},
		{"half a part", NeverVerifyAllowlistedImages, []string{"reg.example/te*"}},
		{"star inside", NeverVerifyAllowlistedImages, []string{"reg.*/team/*"}},
		{"blank", NeverVerifyAllowlistedImages, []string{" web"}},
		{"empty", NeverVerifyAllowlistedImages, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := NewVerifier(c.policy, c.list); err == nil {
				t.Errorf("policy %q with %q is accepted", c.policy, c.list)
			}
		})
	}
}

// What is read is written the same, and nothing makes the reader panic.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2026-01-02T03:04:05Z","imageRef":"sha256:1","credentialMapping":{"web":{"nodePodsAccessible":true}}}`))
	f.Add([]byte(`{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1alpha1","lastUpdatedTime":null,"imageRef":""}`))
	f.Add([]byte(`{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"web"}`))
	f.Add([]byte(`{}{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if i, err := decodeIntent(data); err == nil && i.Kind != intentKind {
			t.Errorf("intent of kind %q", i.Kind)
		}
		r, err := decodeRecord(data)
		if err != nil {
			return
		}
		text, err := json.Marshal(r)
		if err != nil {
			return // years that JSON cannot say
		}
		again, err := decodeRecord(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if second, err := json.Marshal(again); err != nil || string(second) != string(text) {
			t.Errorf("%s becomes %s, %v", text, second, err)
		}
	})
}
