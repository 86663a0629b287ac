"""Whether a question is answered: what `relevant` says where an agent would act on it."""

import pytest

import memorist
from memorist import Memorist

NOTES = (
    "We deploy with `make ship` from the release branch",
    "My name is Anna and I live in Lisbon",
    "The invoice of the caterer was sent back because the address was wrong",
    "In the back office the heating does not turn on before seven",
    "Turn left after the bakery, the entrance is at the back of the yard",
    "Retries are capped at 5 with exponential backoff, since the billing provider bans noisy clients",
    "Marta prefers short answers without greetings",
    "The staging database is wiped every Sunday night",
)


@pytest.fixture
def notes(understanding: Memorist) -> Memorist:
    understanding.add_many(NOTES)
    return understanding


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("how do we ship code?", "We deploy"),
        ("releasing software to production", "We deploy"),
        ("where does Anna live?", "My name is Anna"),
        ("why is the number of retries limited?", "Retries"),
        ("when does staging lose its data?", "The staging"),
        ("caterer", "The invoice"),
    ],
)
def test_a_question_that_a_memory_answers_is_called_answered(notes: Memorist, question: str, answer: str) -> None:
    results = notes.search(question)

    assert results[0].memory.content.startswith(answer)
    assert results.relevant


@pytest.mark.parametrize(
    "question",
    [
        "how do I back up?",
        "how do I turn it off?",
        "what is the capital of Mongolia?",
        "recipe for sourdough bread",
        "who won the chess olympiad?",
    ],
)
def test_a_question_that_no_memory_answers_is_called_unanswered(notes: Memorist, question: str) -> None:
    assert not notes.search(question).relevant


def test_a_name_or_number_that_a_memory_has_is_relevant_by_itself(notes: Memorist) -> None:
    notes.add("The incident INC-4711 was caused by a full disk")

    for query in ("INC-4711", "incident INC-4711"):
        results = notes.search(query)
        assert results[0].memory.content.startswith("The incident")
        assert results.relevant


@pytest.mark.parametrize(
    "question",
    ["what do you know about me?", "Who am I?", "Summarise what you remember about me", "tell me about myself"],
)
def test_a_question_about_the_user_as_such_brings_personal_memories_into_the_context(
    notes: Memorist, question: str
) -> None:
    context = notes.context(question)

    assert "My name is Anna and I live in Lisbon" in context
    assert "Retries" not in context


def test_all_that_is_known_of_something_is_a_search_for_it(notes: Memorist) -> None:
    assert "The staging database is wiped" in notes.context("summarise what we know of the staging database")


def test_without_a_model_words_alone_decide() -> None:
    with memorist.open(":memory:", embedder="none") as memory:
        memory.add_many(NOTES)

        assert memory.search("staging database").relevant
        assert not memory.search("how do I back up?").relevant


OTHER_SCRIPTS = {
    "zh": (
        ("备份每天晚上两点开始，保存三十天，然后删除", "备份保存多长时间？"),
        ("安娜住在里斯本，她在一家银行工作", "安娜住在哪里？"),
        ("发布之前必须先运行所有的测试", "发布之前要做什么？"),
        ("会议室的钥匙放在前台的抽屉里", "会议室的钥匙在哪里？"),
        ("我们每个星期五下午讨论下一个版本的计划", "什么时候讨论下一个版本？"),
        ("这个项目的数据库是PostgreSQL，因为报表需要联接", "报表为什么需要联接？"),
        ("猫不喜欢新的猫粮，要换回原来的牌子", "猫喜欢什么猫粮？"),
        ("暖气在早上七点之前不会打开", "暖气几点打开？"),
    ),
    "ja": (
        ("バックアップは毎晩二時に始まり、三十日間保存される", "バックアップは何日間保存されますか"),
        ("アンナはリスボンに住んでいて、銀行で働いている", "アンナはどこに住んでいますか"),
        ("リリースの前に必ず全部のテストを実行する", "リリースの前に何を実行しますか"),
        ("会議室の鍵は受付の引き出しに入っている", "会議室の鍵はどこですか"),
        ("毎週金曜日の午後に次の版の計画を話し合う", "次の版の計画はいつ話し合いますか"),
        ("猫は新しい餌が嫌いなので、前の銘柄に戻す", "猫は新しい餌が好きですか"),
    ),
    "ru": (
        ("Резервные копии хранятся тридцать дней, потом удаляются", "сколько дней хранятся резервные копии?"),
        ("Анна живёт в Лиссабоне и работает в банке", "где живёт Анна?"),
        ("Перед выпуском надо запустить все тесты", "что надо запустить перед выпуском?"),
        ("Ключ от переговорной лежит в ящике на стойке", "где лежит ключ от переговорной?"),
        ("Отопление не включается раньше семи утра", "когда включается отопление?"),
        ("Кошке не нравится новый корм, вернуть прежнюю марку", "какой корм нравится кошке?"),
    ),
    "hi": (
        ("बैकअप तीस दिन तक रखे जाते हैं, फिर हटा दिए जाते हैं", "बैकअप कितने दिन तक रखे जाते हैं?"),
        ("अन्ना लिस्बन में रहती है और बैंक में काम करती है", "अन्ना कहाँ रहती है?"),
        ("मीटिंग कमरे की चाबी दराज में रखी है", "मीटिंग कमरे की चाबी कहाँ है?"),
        ("बिल्ली को नया खाना पसंद नहीं है", "बिल्ली को कौन सा खाना पसंद नहीं है?"),
    ),
}
ELSEWHERE = {
    "zh": ("蒙古的首都是哪里？", "谁赢得了象棋奥林匹克？"),
    "ja": ("モンゴルの首都はどこですか", "チェスの大会で誰が勝ちましたか"),
    "ru": ("столица Монголии", "кто выиграл шахматную олимпиаду?"),
    "hi": ("मंगोलिया की राजधानी क्या है?", "शतरंज ओलंपियाड किसने जीता?"),
}


@pytest.mark.parametrize("language", OTHER_SCRIPTS)
def test_what_answers_in_another_script_is_relevant_and_nothing_else(language: str) -> None:
    """No bundled model reads these: how far the words of a text stand out has to tell."""
    with memorist.open(":memory:") as memory:
        memory.add_many(text for text, _ in OTHER_SCRIPTS[language])

        for text, question in OTHER_SCRIPTS[language]:
            results = memory.search(question)
            assert (results[0].memory.content, results.relevant) == (text, True), question
            assert text in memory.context(question)
        for question in ELSEWHERE[language]:
            assert not memory.search(question).relevant, question
