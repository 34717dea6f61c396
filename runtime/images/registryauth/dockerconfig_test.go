package registryauth

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func auth(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestParseConfig(t *testing.T) {
	for _, c := range []struct {
		name    string
		data    string
		want    Auths
		wantErr []string
	}{
		{name: "empty", data: `{}`, want: Auths{}},
		{name: "auth", data: `{"auths":{"reg.example":{"auth":"` + auth("u:p") + `"}}}`, want: Auths{"reg.example": {Username: "u", Password: "p"}}},
		{name: "auth without padding", data: `{"auths":{"reg.example":{"auth":"` + strings.TrimRight(auth("u:pp"), "=") + `"}}}`, want: Auths{"reg.example": {Username: "u", Password: "pp"}}},
		{name: "colons in the password", data: `{"auths":{"reg.example":{"auth":"` + auth("u:p:q") + `"}}}`, want: Auths{"reg.example": {Username: "u", Password: "p:q"}}},
		{name: "auth goes before user and password", data: `{"auths":{"reg.example":{"username":"a","password":"b","email":"e@x","auth":"` + auth("u:p") + `"}}}`, want: Auths{"reg.example": {Username: "u", Password: "p", Email: "e@x"}}},
		{name: "identity token", data: `{"auths":{"reg.example":{"auth":"` + auth("0000:") + `","identitytoken":"tok"}}}`, want: Auths{"reg.example": {Username: "0000", IdentityToken: "tok"}}},
		{name: "unknown fields", data: `{"HttpHeaders":{"a":"b"},"auths":{"reg.example":{"username":"u","password":"p","x":1}}}`, want: Auths{"reg.example": {Username: "u", Password: "p"}}},
		{name: "an empty entry is none", data: `{"auths":{"reg.example":{}}}`, want: Auths{}},
		{
			name:    "bad entries leave the others alone",
			data:    `{"auths":{"a.example":{"auth":"s3cret"},"b.example":{"auth":"` + auth("s3cret") + `"},"c.example":[],"%zz":{"username":"u"},"good.example":{"username":"u"}}}`,
			want:    Auths{"good.example": {Username: "u"}},
			wantErr: []string{`"a.example"`, `"b.example"`, `"c.example"`, `"%zz"`},
		},
		{name: "helpers", data: `{"credsStore":"pass","credHelpers":{"gcr.example":"gcloud"}}`, want: Auths{}, wantErr: []string{"credsStore", `credHelpers["gcr.example"]`}},
		{name: "garbage", data: `s3cret`, wantErr: []string{"not JSON"}},
		{name: "another form", data: `{"auths":["s3cret"]}`, wantErr: []string{"not JSON"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseConfig([]byte(c.data))
			if diff := cmp.Diff(c.want, got, cmp.Comparer(sameCredential)); diff != "" {
				t.Errorf("ParseConfig (-want +got):\n%s", diff)
			}
			wantError(t, err, c.wantErr...)
		})
	}
}

func sameCredential(a, b Credential) bool { return a == b }

// wantError wants an error that mentions all texts and never a secret, or none at all.
func wantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if (err != nil) != (len(texts) > 0) {
		t.Errorf("error is %v, want one that mentions %q", err, texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error is %v, want it to mention %q", err, text)
		}
	}
	if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), auth("s3cret"))) {
		t.Errorf("error shows a secret: %v", err)
	}
}

func TestParseLegacyConfig(t *testing.T) {
	got, err := ParseLegacyConfig([]byte(`{"https://index.docker.io/v1/":{"auth":"` + auth("u:p") + `"}}`))
	wantError(t, err)
	want := Auths{"https://index.docker.io/v1/": {Username: "u", Password: "p"}}
	if diff := cmp.Diff(want, got, cmp.Comparer(sameCredential)); diff != "" {
		t.Errorf("ParseLegacyConfig (-want +got):\n%s", diff)
	}
}

func TestCredentialsHash(t *testing.T) {
	for _, c := range []struct {
		name string
		in   Credential
		want string
	}{
		{"password", Credential{Username: "u", Password: "p"}, "edbd57ca9372e64eb1c9070ecf3a049ac553596b0529acf034c7a71d4e618e88"},
		{"email", Credential{Username: "u", Password: "p", Email: "e@x"}, "81ca68cdff03c27e85aa0907582586fc0609858994808ba6e7b4edf8ca5924d1"},
		{"the source is no part of it", Credential{Username: "u", Password: "p", Source: Source{Secret: &ObjectRef{Name: "s"}}}, "edbd57ca9372e64eb1c9070ecf3a049ac553596b0529acf034c7a71d4e618e88"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.in.Hash(); got != c.want {
				t.Errorf("Hash is %s, want %s", got, c.want)
			}
		})
	}
}

func TestCredentialsDoNotPrint(t *testing.T) {
	c := Credential{Username: "s3cret", Password: "s3cret", IdentityToken: "s3cret", Source: Source{Secret: &ObjectRef{Namespace: "ns", Name: "pull"}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(format, []Credential{c}); strings.Contains(got, "s3cret") || strings.Contains(got, "733363726574") {
			t.Errorf("%s prints %s", format, got)
		}
	}
	if got, want := c.LogValue().String(), "credential of secret ns/pull"; got != want {
		t.Errorf("LogValue is %q, want %q", got, want)
	}
}

// No input makes the parser panic, show a secret or return what no registry could use.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{
		`{"auths":{"reg.example":{"auth":"dTpw"}}}`, `{"auths":{"https://index.docker.io/v1/":{"username":"u","password":"p"}}}`,
		`{"auths":{"*.[a":{"username":"u"}}}`, `{"auths":{"":{}}}`, `{"reg.example":{"auth":"dTpw"}}`, `{"credHelpers":{"a":"b"}}`, `[]`, `{"auths":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, parse := range []func([]byte) (Auths, error){ParseConfig, ParseLegacyConfig} {
			auths, _ := parse(data)
			keyring := &Keyring{}
			keyring.Add(auths, Source{})
			if len(keyring.entries) != len(auths) {
				t.Errorf("%d of %d entries can be used", len(keyring.entries), len(auths))
			}
			keyring.Lookup("docker.io/library/web")
		}
	})
}
