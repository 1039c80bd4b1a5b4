//! Follows redirects from the requested URL to the page. Each redirect is a request of its own.

use std::collections::BTreeMap;

use url::Url;

use crate::fault::Fault;

/// The most redirects that one call follows.
const MOST_REDIRECTS: usize = 5;

/// The response of a server.
#[derive(Debug, Default, Clone)]
pub struct Received {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body was cut off.
    pub truncated: bool,
}

impl Received {
    /// The first header of this name.
    pub fn header(&self, wanted: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.as_str())
    }

    fn redirects(&self) -> bool {
        matches!(self.status, 301 | 302 | 303 | 307 | 308)
    }
}

/// The page and its final URL.
#[derive(Debug)]
pub struct Arrived {
    pub url: Url,
    pub received: Received,
}

/// Requests `url` and follows its redirects. Headers of the call go only to the origin that they were given
/// for.
pub fn travel(
    url: &str,
    headers: &BTreeMap<String, String>,
    mut get: impl FnMut(&Url, &BTreeMap<String, String>) -> Result<Received, Fault>,
) -> Result<Arrived, Fault> {
    let first = fetchable(Url::parse(url).map_err(|error| Fault::Url(error.to_string()))?)?;
    let nothing = BTreeMap::new();
    let mut url = first.clone();
    for _ in 0..=MOST_REDIRECTS {
        let headers = if url.origin() == first.origin() { headers } else { &nothing };
        let received = get(&url, headers)?;
        let location = received.header("location").filter(|_| received.redirects());
        let Some(location) = location else { return Ok(Arrived { url, received }) };
        let next = url.join(location).map_err(|_| Fault::Nowhere(location.to_owned()))?;
        url = fetchable(next).map_err(|_| Fault::Nowhere(location.to_owned()))?;
    }
    Err(Fault::Redirects(url.into()))
}

fn fetchable(mut url: Url) -> Result<Url, Fault> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::Url(format!("its scheme is `{}`", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Fault::Url("it has a user name or a password in it".to_owned()));
    }
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(to: &str) -> Received {
        Received { status: 302, headers: vec![("Location".into(), to.into())], ..Received::default() }
    }

    #[test]
    fn redirects_are_followed_to_a_bound() {
        let mut asked = Vec::new();
        let arrived = travel("https://a.example/x/y?z#part", &BTreeMap::new(), |url, _| {
            asked.push(url.to_string());
            Ok(match asked.len() {
                1 => redirect("../up"),
                2 => redirect("//b.example/"),
                _ => Received { status: 200, ..Received::default() },
            })
        });
        assert_eq!(arrived.expect("it arrives").url.as_str(), "https://b.example/");
        assert_eq!(asked, ["https://a.example/x/y?z", "https://a.example/up", "https://b.example/"]);

        let mut hops = 0;
        let lost = travel("https://a.example/", &BTreeMap::new(), |_, _| {
            hops += 1;
            Ok(redirect("/again"))
        });
        assert_eq!(lost.expect_err("a circle"), Fault::Redirects("https://a.example/again".into()));
        assert_eq!(hops, MOST_REDIRECTS + 1);
    }

    #[test]
    fn headers_do_not_follow_to_another_origin() {
        let headers = BTreeMap::from([("authorization".to_owned(), "x".to_owned())]);
        let mut with = Vec::new();
        let arrived = travel("https://a.example/", &headers, |_, headers| {
            with.push(headers.len());
            Ok(match with.len() {
                1 => redirect("/same"),
                2 => redirect("http://a.example/"),
                3 => redirect("https://b.example/"),
                _ => Received { status: 200, ..Received::default() },
            })
        });
        assert!(arrived.is_ok());
        assert_eq!(with, [1, 1, 0, 0]);
    }

    #[test]
    fn what_is_no_page_of_the_web_is_refused() {
        let get =
            |_: &Url, _: &BTreeMap<String, String>| -> Result<Received, Fault> { panic!("nothing is sent") };
        for url in
            ["", "example.com", "file:///etc/passwd", "ftp://a.example", "https://u:p@a.example", "data:,x"]
        {
            assert!(matches!(travel(url, &BTreeMap::new(), get), Err(Fault::Url(_))), "{url}");
        }
        for to in ["file:///etc/passwd", "javascript:alert(1)", "https://u@b.example", "https://"] {
            let led = travel("https://a.example", &BTreeMap::new(), |_, _| Ok(redirect(to)));
            assert_eq!(led.expect_err(to), Fault::Nowhere(to.to_owned()));
        }
    }
}
