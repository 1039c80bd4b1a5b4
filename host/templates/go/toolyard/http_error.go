//go:build !nohttp

package toolyard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"unsafe"
)

// RequestError is the reason why a request has no response, or a response no end. net/http wraps it:
// use errors.As.
type RequestError struct {
	// Code is the case of error-code in wasi:http, such as "connection-refused".
	Code string
	text string
}

func (e *RequestError) Error() string { return e.text }

// Timeout reports whether a timeout passed, as net.Error does.
func (e *RequestError) Timeout() bool {
	switch e.Code {
	case "DNS-timeout", "connection-timeout", "connection-read-timeout", "connection-write-timeout", "HTTP-response-timeout":
		return true
	}
	return false
}

// Is makes errors.Is(err, context.DeadlineExceeded) true for a timeout.
func (e *RequestError) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Timeout()
}

// errorCodes has the cases of error-code, in the order of the contract.
var errorCodes = [...]string{
	"DNS-timeout", "DNS-error", "destination-not-found", "destination-unavailable", "destination-IP-prohibited",
	"destination-IP-unroutable", "connection-refused", "connection-terminated", "connection-timeout",
	"connection-read-timeout", "connection-write-timeout", "connection-limit-reached", "TLS-protocol-error",
	"TLS-certificate-error", "TLS-alert-received", "HTTP-request-denied", "HTTP-request-length-required",
	"HTTP-request-body-size", "HTTP-request-method-invalid", "HTTP-request-URI-invalid", "HTTP-request-URI-too-long",
	"HTTP-request-header-section-size", "HTTP-request-header-size", "HTTP-request-trailer-section-size",
	"HTTP-request-trailer-size", "HTTP-response-incomplete", "HTTP-response-header-section-size",
	"HTTP-response-header-size", "HTTP-response-body-size", "HTTP-response-trailer-section-size",
	"HTTP-response-trailer-size", "HTTP-response-transfer-coding", "HTTP-response-content-coding",
	"HTTP-response-timeout", "HTTP-upgrade-failed", "HTTP-protocol-error", "loop-detected", "configuration-error",
	"internal-error",
}

func (e *abiErrorCode) lift(request *http.Request) error {
	code := "unknown error"
	if int(e.tag) < len(errorCodes) {
		code = errorCodes[e.tag]
	}
	return &RequestError{code, e.sentence(code, request)}
}

func (e *abiErrorCode) sentence(code string, request *http.Request) string {
	to := request.URL.Host
	switch code {
	case "HTTP-request-denied":
		return fmt.Sprintf("the manifest of this plugin does not grant %s requests to %q; the operator of the host can add it to [http] allow of the manifest", methodOf(request), to)
	case "destination-IP-prohibited":
		return fmt.Sprintf("%q is not at a public address; the operator of the host can grant it in [http] allow of the manifest, with private = true", to)
	case "DNS-error", "destination-not-found":
		return fmt.Sprintf("the host name of %q has no address; check its spelling, and the DNS of the host", to)
	case "DNS-timeout":
		return fmt.Sprintf("the DNS did not answer in time for %q; try again later", to)
	case "connection-refused":
		return fmt.Sprintf("%q refused the connection; check that the server runs, and its port", to)
	case "destination-unavailable", "destination-IP-unroutable":
		return fmt.Sprintf("%q cannot be reached from the network of the host", to)
	case "connection-timeout":
		return fmt.Sprintf("%q did not accept the connection in time; try again later, or with a longer timeout", to)
	case "connection-read-timeout", "HTTP-response-timeout":
		return timeout(request)
	case "connection-write-timeout":
		return fmt.Sprintf("%q did not read the request in time; try again later, or with a longer timeout", to)
	case "connection-terminated", "HTTP-response-incomplete":
		return fmt.Sprintf("%q closed the connection before the response was complete; try again later", to)
	case "TLS-certificate-error":
		return fmt.Sprintf("the certificate of %q is not valid; the operator of the host can add a trusted one with SSL_CERT_FILE", to)
	case "TLS-protocol-error":
		return fmt.Sprintf("there is no TLS connection to %q; check that it serves https at this port", to)
	case "TLS-alert-received":
		// record { alert-id: option<u8>, alert-message: option<string> }
		alert := payload[struct {
			_       [2]uint8
			message abiOption
		}](&e.payload).message.lift()
		return fmt.Sprintf("%q ended the TLS handshake with an alert: %s", to, alert)
	case "HTTP-request-body-size":
		if method := methodOf(request); method == http.MethodGet || method == http.MethodHead {
			return fmt.Sprintf("the host sends no %s request with a body; use another method, or leave the body out", method)
		}
		return "the body of the request is too long; the operator of the host can raise http-request in [limits] of the manifest"
	case "HTTP-response-body-size":
		return fmt.Sprintf("the response of %q is too long; the operator of the host can raise http-response in [limits] of the manifest", to)
	case "HTTP-request-method-invalid":
		return fmt.Sprintf("the host never sends %s requests", methodOf(request))
	case "internal-error":
		// The host passes its own sentences this way, such as which limit was reached.
		if why := payload[abiOption](&e.payload).lift(); why != "" {
			return why
		}
	}
	return fmt.Sprintf("the request to %q failed: %s", to, code)
}

func timeout(request *http.Request) string {
	return fmt.Sprintf("%q gave no answer in time; try again later, or with a longer timeout", request.URL.Host)
}

// contextError returns the error of a context that is over. Unlike the context's own, that of a
// deadline says which server took too long.
func contextError(request *http.Request, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &RequestError{"HTTP-response-timeout", timeout(request)}
	}
	return err
}

// lift returns the error of a failed stream, whose handle it drops.
func (e *abiStreamError) lift(request *http.Request) error {
	if e.closed != 0 {
		return errClosed
	}
	defer dropError(e.err)
	code := new(abiHandled)
	httpErrorCode(e.err, unsafe.Pointer(code))
	if code.tag != 0 {
		return payload[abiErrorCode](&code.payload).lift(request)
	}
	text := new(abiString)
	errorString(e.err, unsafe.Pointer(text))
	return &RequestError{"internal-error", fmt.Sprintf("the connection to %q failed: %s", request.URL.Host, text.lift())}
}

// errClosed means that a stream has ended.
var errClosed = errors.New("the stream is closed")
