package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// creds is a program that seals under a name, as systemd-creds does, and badly.
const creds = `#!/bin/sh
name=${2#--name=}
case $1 in
encrypt) echo "$name"; base64 ;;
decrypt)
	read -r was
	[ "$was" = "$name" ] || { echo "sealed as $was" >&2; exit 1; }
	base64 -d ;;
*) exit 2 ;;
esac
`

func TestSealingWithAProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, systemdCreds), []byte(creds), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	store, err := (&storing{podStore: true, seal: systemdCreds}).store()
	if err != nil {
		t.Fatal(err)
	}
	s := store.Sealer
	sealed, err := s.Seal(t.Context(), "secret-1", []byte("hunter2"))
	if err != nil || strings.Contains(string(sealed), "hunter2") {
		t.Fatalf("sealed is %q, %v", sealed, err)
	}
	if plain, err := s.Open(t.Context(), "secret-1", sealed); err != nil || string(plain) != "hunter2" {
		t.Errorf("plain is %q, %v", plain, err)
	}
	if _, err := s.Open(t.Context(), "secret-2", sealed); err == nil || !strings.Contains(err.Error(), "systemd-creds decrypt: exit status 1: sealed as secret-1") {
		t.Errorf("under another name the error is %v", err)
	}
}

func TestStoreFlags(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, tt := range []struct {
		name  string
		flags storing
		want  string
	}{
		{"a seal without a store", storing{seal: systemdCreds}, "--pod-store-seal has no effect without --pod-store"},
		{"an unknown seal", storing{podStore: true, seal: "rot13"}, `--pod-store-seal: "rot13", want systemd-creds or nothing`},
		{"a missing program", storing{podStore: true, seal: systemdCreds}, "--pod-store-seal: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := tt.flags.store(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if store, err := (&storing{}).store(); err != nil || store != nil {
		t.Errorf("without flags the store is %v, %v, want none", store, err)
	}
	if store, err := (&storing{podStore: true}).store(); err != nil || store == nil || store.Sealer != nil {
		t.Errorf("the store is %v, %v, want one without a seal", store, err)
	}
}
