//! When tokens were used last, which is no change of the catalog.

use tollgate_catalog::{Edit, Entry, Expect, Role, Token};
use tollgate_core::Timestamp;

use crate::desk::TestCatalog;
use crate::place::everywhere;

#[tokio::test(flavor = "multi_thread")]
async fn the_latest_use_of_a_token_is_known_and_makes_no_revision() {
    everywhere(async |place| {
        let desk = TestCatalog::open(place).await;
        let tokens = [0, 1].map(|_| Token::create(Role::Viewer).expect("random numbers").0);
        let put = |token: &Token| Edit::Put {
            entry: Entry::Token(token.clone()),
            expect: Expect::Absent,
        };
        desk.write(tokens.iter().map(put).collect()).await;
        let [first, second] = tokens.each_ref().map(|token| token.token_id.as_str());
        let before = desk.catalog.version().await.expect("a version");
        let check = async |touched: &[&str], at: u64, expected: [Option<u64>; 2]| {
            let touched = touched.iter().map(|id| (*id).to_owned()).collect();
            let now = Timestamp::from_secs(at);
            desk.catalog.touch_tokens(touched, now).await.expect("noted");
            let used = desk.catalog.last_used(&[first, second, "unknown"]).await.expect("known");
            let found = [first, second].map(|id| used.get(id).copied());
            assert_eq!(found, expected.map(|at| at.map(Timestamp::from_secs)), "at {at}");
        };
        check(&[], 10, [None, None]).await;
        check(&["unknown"], 20, [None, None]).await;
        check(&[second, first], 30, [Some(30), Some(30)]).await;
        check(&[first], 50, [Some(50), Some(30)]).await;
        // Another node reported later.
        check(&[first, second], 40, [Some(50), Some(40)]).await;
        assert!(desk.catalog.last_used(&[]).await.expect("nothing").is_empty());
        assert_eq!(desk.catalog.version().await.expect("a version"), before);
    })
    .await;
}
