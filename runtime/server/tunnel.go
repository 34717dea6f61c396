package server

import (
	"net/http"
	"net/url"
)

// tunnel lets a client speak SPDY with the runtime inside a WebSocket.
func (s *Server) tunnel(w http.ResponseWriter, r *http.Request, to *url.URL, protocols []string) {
	up, err := s.upgrade(r.Context(), http.MethodPost, to, http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {spdyUpgrade}, streamProtocol: protocols,
	})
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	if up.answer.StatusCode != http.StatusSwitchingProtocols {
		up.refuse(w)
		return
	}
	defer up.Close()
	socket, err := s.newWebSocket(w, r, tunnelPrefix+up.answer.Header.Get(streamProtocol))
	if err != nil {
		s.log.Debug("client did not get its WebSocket", "err", err)
		return
	}
	defer socket.close()
	s.pipe(r.Context(), socket, up)
}
