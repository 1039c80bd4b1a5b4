package toolyard

import "encoding/base64"

// Content is one block of a result. A handler returns one, a list of them, or a Reply with them.
type Content struct {
	kind contentKind
	text string // the text, or the JSON of links and resources
	data []byte
	mime string
}

type contentKind uint8

// The cases of content in the contract.
const (
	textKind contentKind = iota
	imageKind
	audioKind
	linkKind
	resourceKind
)

// Text is a text for the model.
func Text(text string) Content { return Content{kind: textKind, text: text} }

// Image is an image in a file format, with its media type, such as "image/png". Use image/png or
// image/jpeg of the standard library to encode an image.Image.
func Image(data []byte, mimeType string) Content {
	return Content{kind: imageKind, data: data, mime: mimeType}
}

// Audio is a piece of audio, with its media type, such as "audio/wav".
func Audio(data []byte, mimeType string) Content {
	return Content{kind: audioKind, data: data, mime: mimeType}
}

// Link is a link to a resource, which the client can read by itself. URI and Name are required.
type Link struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
	Size        int64  `json:"size,omitempty"` // in bytes; 0 for unknown
}

// Content returns the link as a block of a result.
func (link Link) Content() Content { return Content{kind: linkKind, text: mustMarshal(link)} }

// File is a file inside a result. The URI names it, as in "file:///report.csv".
func File(uri, mimeType string, data []byte) Content {
	return embedded(uri, mimeType, "blob", base64.StdEncoding.EncodeToString(data))
}

// TextFile is a File whose content is text, which the model can read.
func TextFile(uri, mimeType, text string) Content { return embedded(uri, mimeType, "text", text) }

func embedded(uri, mimeType, member, value string) Content {
	resource := map[string]string{"uri": uri, "mimeType": mimeType, member: value}
	return Content{kind: resourceKind, text: mustMarshal(map[string]any{"resource": resource})}
}

func (c Content) lower(a *arena) abiContent {
	lowered := abiContent{tag: uint8(c.kind)}
	switch c.kind {
	case imageKind, audioKind:
		*payload[abiMedia](&lowered.payload) = abiMedia{data: list(a, c.data), mimeType: a.string(c.mime)}
	case textKind:
		*payload[abiTextBlock](&lowered.payload) = abiTextBlock{text: a.string(c.text)}
	default:
		*payload[abiString](&lowered.payload) = a.string(c.text)
	}
	return lowered
}
