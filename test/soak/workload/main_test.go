package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHandler(t *testing.T) {
	file := filepath.Join(t.TempDir(), "version")
	if err := os.WriteFile(file, []byte("7"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, target string
		wantCode     int
		wantBody     string
	}{
		{"the name", "/", http.StatusOK, "pod-1\n"},
		{"a file", "/file?path=" + url.QueryEscape(file), http.StatusOK, "7"},
		{"no file", "/file?path=" + url.QueryEscape(file+"s"), http.StatusNotFound, "no such file"},
		{"another page", "/other", http.StatusNotFound, "not found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			handler("pod-1", time.Hour).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, tt.target, nil))
			if answer.Code != tt.wantCode || !strings.Contains(answer.Body.String(), tt.wantBody) {
				t.Errorf("got %d %q, want %d %q", answer.Code, answer.Body, tt.wantCode, tt.wantBody)
			}
		})
	}
}

func TestFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler("pod-1", time.Minute)
		seen := map[int]int{}
		for range 10 {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/flap", nil))
			seen[answer.Code]++
			<-time.After(time.Minute)
		}
		if seen[http.StatusOK] != 5 || seen[http.StatusInternalServerError] != 5 {
			t.Errorf("answers by their code: %v, want half of them each", seen)
		}
	})
}
