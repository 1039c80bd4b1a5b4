//! Reads server-sent events as this host writes them.

use bytes::Bytes;

/// Reads the events of a stream that a host writes.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    /// The line that has not ended yet.
    line: Vec<u8>,
    data: Vec<u8>,
    last_id: Option<String>,
}

impl EventReader {
    /// The messages that end in these bytes. An event without data is none.
    pub fn read(&mut self, mut bytes: &[u8]) -> Vec<Bytes> {
        let mut messages = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            if line.is_empty() {
                let data = std::mem::take(&mut self.data);
                if !data.is_empty() {
                    messages.push(data.into());
                }
            } else if let Some(data) = line.strip_prefix(b"data: ") {
                self.data.extend_from_slice(data);
            } else if let Some(id) = line.strip_prefix(b"id: ") {
                self.last_id = String::from_utf8(id.to_vec()).ok();
            }
        }
        self.line.extend_from_slice(bytes);
        messages
    }

    /// The id of the last event, to continue after it.
    pub fn last_id(&mut self) -> Option<String> {
        self.last_id.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_from_pieces_of_any_length() {
        let written = b"id: 1-0\nretry: 9\ndata: \n\n: alive\n\nid: 1-1\ndata: {\"a\": 1}\n\ndata: 1\n\n";
        for length in 1..=written.len() {
            let mut reader = EventReader::default();
            let read: Vec<_> = written.chunks(length).flat_map(|piece| reader.read(piece)).collect();
            assert_eq!(read, ["{\"a\": 1}", "1"]);
            assert_eq!(reader.last_id().as_deref(), Some("1-1"));
        }
    }
}
